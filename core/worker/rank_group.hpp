// SPDX-License-Identifier: Apache-2.0
// The controller's handle of all ranks' workers: every operation of a `Runner`, done by all ranks.
// With one rank it is a plain `Runner`. When a rank fails, all are ended, and the failure names the
// rank at fault. Ranks may be on other machines (remote/), except for work that is timed together
// or recorded.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/block_mirror.hpp"
#include "core/comm/device_comm.hpp"
#include "core/comm/shared_comm.hpp"
#include "core/worker/remote/machines.hpp"
#include "core/worker/remote/messages.hpp"
#include "core/worker/runner.hpp"

namespace fk {

class RankGroup {
 public:
  // Longest wait of a rank for the others in a collective. It is below half of a worker's patience,
  // so the missing rank is known before waiting ranks count as hung. The missing rank then has two
  // seconds to finish, whatever its own patience.
  static constexpr double kPatienceS = 20;

  // Starts the processes; a failure is in failure().
  RankGroup(const Runner::Options& options, int size);
  RankGroup(const RankGroup&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  bool failed() const { return failure_.has_value(); }
  const RunnerFailure& failure() const { return *failure_; }

  std::optional<Loaded> load(const std::vector<PluginFile>& plugins);
  // As RankRunner's, for all ranks. The spec is the same for all ranks. `weights` has one entry per
  // rank; `states` too, unless it is empty.
  std::optional<SessionInfo> open(const SessionSpec& spec,
                                  const std::vector<WeightsHandle>& weights,
                                  const std::vector<StatesHandle>& states = {});
  std::vector<StatesHandle> states() const;  // the sessions' states, by rank
  bool clear();
  bool close_session();
  // As in `Runner`, with one file per rank; recorded() returns the results by rank.
  bool record(const RecordOptions& options, const std::vector<int>& files,
              const std::string& workload);
  std::optional<std::vector<Recording>> recorded();
  // Runs the task on every rank at the same time; answers by rank. `progress` gets the rank; one
  // thread at a time calls it.
  using OnProgress = std::function<void(int rank, const Json&)>;
  std::optional<std::vector<Json>> task_on_all(const std::string& name, const Json& arguments,
                                               const OnProgress& progress);
  template <class Question>
  std::optional<std::vector<typename Question::Answer>> task_on_all(const Question& question,
                                                                    const OnProgress& progress) {
    return understand_all<Question>(task_on_all(Question::kName, to_fields(question), progress));
  }
  // The same for timed work: all ranks are asked before any answer is read. `fds` holds an equal
  // number for each rank, in order. A rank that has answered is stopped until the next thaw().
  // `done` is called once all ranks report done or have answered; it may be called again.
  std::optional<std::vector<Json>> ask_all(const std::string& name, const Json& arguments,
                                           const std::vector<int>& fds = {},
                                           const std::function<void()>& done = {});
  template <class Question>
  std::optional<std::vector<typename Question::Answer>> ask_all(
      const Question& question, const std::vector<int>& fds = {},
      const std::function<void()>& done = {}) {
    return understand_all<Question>(ask_all(Question::kName, to_fields(question), fds, done));
  }
  // As in `Runner`, for all ranks. thaw() may begin once the last rank is stopped.
  bool freeze();
  void thaw();
  // Processor time of all processes together, and number of their threads.
  double worked_s() const;
  int threads() const;
  pid_t pid(int rank) const { return here(rank).pid(); }
  // On the first rank only: work that needs no other rank.
  template <class Question>
  std::optional<typename Question::Answer> ask(const Question& question) {
    auto answer = here(0).ask(question);
    look_for_failures();
    return answer;
  }

  // A drive, as in `Runner`. Events come from the first rank; the tokens of other ranks are
  // compared with its tokens.
  bool begin(bool taps);
  void submit(const Request& request);
  void close_requests();
  std::optional<RunnerEvent> wait(double timeout_s);
  void condemn(const std::string& kind, const std::string& text);
  // As in `Runner`.
  void dismiss() {
    for (auto& rank : ranks_) rank->dismiss();
  }
  bool wait_for_end(double seconds) {
    bool ended = true;
    for (auto& rank : ranks_) ended &= rank->wait_for_end(seconds);
    return ended;
  }

  std::string log();
  // Protections of the first rank, which all ranks share.
  const std::vector<Protection>& protections() const { return here(0).protections(); }
  int64_t held_bytes() const;  // private memory of all processes, as the kernel counts it
  void set_patience(double seconds);
  // Patience for loading and opening.
  void set_open_patience(double seconds);

 private:
  // A token that a rank reported: request, number after the prompt, and the token itself.
  struct Token {
    uint64_t id;
    int64_t index, token;
    bool operator==(const Token&) const = default;
  };
  // The ranks' block on another machine, kept equal to the local one.
  struct FarBlock {
    Machine* machine = nullptr;
    uint64_t id = 0;
    ~FarBlock() { machine->tell(message_json(messages::Drop{id})); }
  };
  void make_far_blocks(int size);
  // A worker of this machine.
  Runner& here(int rank) const {
    FK_CHECK(local_[static_cast<size_t>(rank)], "only done by the ranks of one machine");
    return *local_[static_cast<size_t>(rank)];
  }
  // Calls `work` with each rank's worker, for all ranks at the same time. False when a worker has
  // failed.
  bool on_all(const std::function<void(RankRunner&, int)>& work);
  // Answers by rank; a malformed one ends all.
  template <class Question>
  std::optional<std::vector<typename Question::Answer>> understand_all(
      const std::optional<std::vector<Json>>& said) {
    if (!said) return std::nullopt;
    std::vector<typename Question::Answer> answers;
    try {
      for (const Json& one : *said)
        answers.push_back(from_fields<typename Question::Answer>(one, "its answer", kForeignText));
    } catch (const Error& e) {
      const std::string rank = size() > 1 ? "rank " + std::to_string(answers.size()) + ": " : "";
      condemn("protocol", rank + "a malformed answer to " + Question::kName + ": " + e.what());
      return std::nullopt;
    }
    return answers;
  }
  // Keeps the failure of the rank at fault, and ends the others.
  bool look_for_failures();
  // Reports the failed rank to the others at once, because they would wait for it.
  void tell_others(int rank);
  int at_fault() const;  // -1: no rank
  // The rank at fault if this rank lost its device while it waited for the other; -1: this rank
  // itself.
  int missed_by(int rank) const;
  // seconds since the rank's last sign of life, counted up to its failure
  double silence(int rank) const;
  std::string silent_too(int rank) const;
  void hear_who_waits();
  // Waits for any of `ranks`; calls `done` while these ranks report done.
  void wait_for_any(const std::vector<int>& ranks, const std::function<void()>& done) const;
  bool take_from_others();
  std::string tokens_differ();
  void forget_compared();

  SharedMemory block_;  // of the communicator, with several ranks
  std::vector<std::unique_ptr<FarBlock>> far_blocks_;
  std::unique_ptr<BlockMirror> mirror_;
  std::vector<std::unique_ptr<RankRunner>> ranks_;
  std::vector<Runner*> local_;  // workers of this machine, null for others
  std::optional<RunnerFailure> failure_;
  double device_wait_s_ = 0;                // a rank lost its device after this wait for another
  std::vector<std::vector<Token>> tokens_;  // of this drive, by rank
  std::vector<size_t> compared_;            // number of compared tokens, by rank
  std::vector<bool> driven_;                // by rank: true once its drive has ended
};

}  // namespace fk
