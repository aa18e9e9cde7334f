// SPDX-License-Identifier: Apache-2.0
// The runners of all ranks as the broker holds them: what one Runner offers, done by every rank.
// With one rank it is that Runner and nothing more. When a rank fails, all are ended, and the
// failure names the rank that was at fault. Ranks may be on other machines (remote/), but for what
// is timed together or recorded.
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
#include "core/worker/runner.hpp"

namespace fk {

class RankGroup {
 public:
  // How long ranks wait for each other in a collective, at most. It is less than half of a runner's
  // own patience, so that who is missing is known before those who wait are taken for hung; then it
  // has two seconds to end what it does, whatever its own patience.
  static constexpr double kPatienceS = 20;

  // Starts the processes; a failure to do so is in failure().
  RankGroup(const Runner::Options& options, int size);
  RankGroup(const RankGroup&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  bool failed() const { return failure_.has_value(); }
  const RunnerFailure& failure() const { return *failure_; }

  std::optional<Runner::Loaded> load(const std::vector<PluginFile>& plugins);
  // The spec is for all ranks; `weights` has each rank's own, and so has `states`, or is empty.
  std::optional<SessionInfo> open(const SessionSpec& spec,
                                  const std::vector<WeightsHandle>& weights,
                                  const std::vector<StatesHandle>& states = {});
  std::vector<StatesHandle> states() const;  // as of a Runner, by rank
  bool clear();
  bool close_session();
  // As of a Runner, a file for each rank; what they recorded by rank.
  bool record(const RecordOptions& options, const std::vector<int>& files,
              const std::string& workload);
  std::optional<std::vector<Json>> recorded();
  // On every rank at the same time; the answers by rank. `progress` gets the rank, and is called by
  // one thread at a time.
  using OnProgress = std::function<void(int rank, const Json&)>;
  std::optional<std::vector<Json>> task_on_all(const std::string& name, const Json& arguments,
                                               const OnProgress& progress);
  // The same for work that is timed: all are asked before any is heard, `fds` are of all ranks in
  // turn, as many for each, and who has answered is stopped until the next thaw(). `done` is called
  // as soon as all say that they are or have answered, and may be again.
  std::optional<std::vector<Json>> ask_all(const std::string& name, const Json& arguments,
                                           const std::vector<int>& fds = {},
                                           const std::function<void()>& done = {});
  // As of a Runner, all of them: thaw() begins when the last one stands still.
  bool freeze();
  void thaw();
  // What all processes together have used of the processors, and how many threads they have.
  double worked_s() const;
  int threads() const;
  pid_t pid(int rank) const { return here(rank).pid(); }
  // On the first rank alone: work that needs no other.
  std::optional<Json> task(const std::string& name, const Json& arguments,
                           const Runner::OnProgress& progress);

  // A drive, as of a Runner. Events are the first rank's; the others' tokens are compared with its
  // own.
  bool begin(bool taps);
  void submit(const Request& request);
  void close_requests();
  std::optional<RunnerEvent> wait(double timeout_s);
  void condemn(const std::string& kind, const std::string& text);
  // As of a Runner.
  void dismiss() {
    for (auto& rank : ranks_) rank->dismiss();
  }
  bool wait_for_end(double seconds) {
    bool ended = true;
    for (auto& rank : ranks_) ended &= rank->wait_for_end(seconds);
    return ended;
  }

  std::string log();
  // Of the first rank, which has those of all.
  const std::vector<Protection>& protections() const { return here(0).protections(); }
  int64_t held_bytes() const;  // private memory of all processes, as the kernel counts it
  void set_patience(double seconds);
  // Of loading too.
  void set_open_patience(double seconds);

 private:
  struct Token {
    uint64_t id;
    int64_t index, token;
    bool operator==(const Token&) const = default;
  };
  // The ranks' block on another machine, which is kept in step with the one here.
  struct FarBlock {
    Machine* machine = nullptr;
    uint64_t id = 0;
    ~FarBlock() { machine->tell({{"drop", id}}); }
  };
  void make_far_blocks(int size);
  // A runner of this machine.
  Runner& here(int rank) const {
    FK_CHECK(local_[static_cast<size_t>(rank)], "only done by the ranks of one machine");
    return *local_[static_cast<size_t>(rank)];
  }
  // Calls work(runner, rank) for all ranks at the same time; false when a runner has failed.
  bool on_all(const std::function<void(RankRunner&, int)>& work);
  // Takes the failure of the rank that is at fault, and ends the others.
  bool look_for_failures();
  // A rank has failed: the others are told at once, because they would wait for it.
  void tell_others(int rank);
  int at_fault() const;  // -1: nobody
  // Who is at fault where this one has lost its device in waiting for it; -1: it is itself.
  int missed_by(int rank) const;
  double silence(int rank) const;  // of one that has failed, before it did
  std::string silent_too(int rank) const;
  void hear_who_waits();
  // `done` is called while these say that they are.
  void wait_for_any(const std::vector<int>& ranks, const std::function<void()>& done) const;
  bool take_from_others();
  std::string tokens_differ();

  SharedMemory block_;  // of the communicator, where there are several ranks
  std::vector<std::unique_ptr<FarBlock>> far_blocks_;
  std::unique_ptr<BlockMirror> mirror_;
  std::vector<std::unique_ptr<RankRunner>> ranks_;
  std::vector<Runner*> local_;  // those of this machine, null for the others
  std::optional<RunnerFailure> failure_;
  double device_wait_s_ = 0;                // who lost its device after so long waited for a rank
  std::vector<std::vector<Token>> tokens_;  // of this drive, by rank
  std::vector<size_t> compared_;            // of each rank's tokens
  std::vector<bool> driven_;
};

}  // namespace fk
