// SPDX-License-Identifier: Apache-2.0
// A runner as the broker holds it: a process that loads plugins and runs a session or a task.
// Nothing that plugin code does throws here or blocks longer than the patience: it becomes a
// RunnerFailure, after which the process is gone or going: it runs no more, but what it had on a
// device may take a moment.
#pragma once
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/io.hpp"
#include "core/exec/recorder.hpp"
#include "core/worker/board.hpp"
#include "core/worker/channel.hpp"
#include "core/worker/process.hpp"
#include "core/worker/rank_runner.hpp"
#include "core/worker/record.hpp"
#include "core/worker/sandbox.hpp"
#include "core/worker/spec.hpp"

namespace fk {

class Runner final : public RankRunner {
 public:
  struct Options {
    std::string name = "runner";                     // for messages
    int64_t private_bytes_max = 0;                   // 0: no limit
    double patience_s = 60;                          // without a sign of life while it has work
    double open_patience_s = 300;                    // for loading and opening
    uint64_t payload_bytes_max = uint64_t{1} << 28;  // of one result
    std::string executable = "/proc/self/exe";
    bool sends_fds = false;         // a trusted process, whose answers may bring descriptors
    bool sandbox = true;            // sealed before it loads a candidate
    std::string device = "cpu";     // the one that it will use: opened before it is sealed
    std::vector<std::string> read;  // files and folders that it reads after it was sealed
    // Takes its user at once, where a device will be open before a candidate is loaded.
    bool early_user = false;
    // Asked while it is waited for; when it says so the runner is ended (`environment`).
    std::function<bool()> given_up;
    // The same: why its work on the device has no end, which then is a crash; empty: it goes on.
    std::function<std::string()> stopped;
    // The same: what other ranks have waited for in vain ("did not come to ..."), which then is a
    // hang unless it ends what it does soon; empty: they do not miss it.
    std::function<std::string()> missed;
    LaunchAgent* agent = nullptr;  // who starts the process; null: this one
    // For so long an answer, and by the process a question, is waited for without sleeping. Needs
    // cores to spare.
    double spin_s = 0, its_spin_s = 0;
  };
  // Starts the process; a failure to do so is in failure() too.
  explicit Runner(Options options);
  ~Runner() override;  // ends the process

  std::optional<Loaded> load(const std::vector<PluginFile>& plugins) override;
  // What protects the host from the candidate that was loaded, said before that was loaded; empty
  // without one.
  const std::vector<Protection>& protections() const { return protections_; }
  std::optional<SessionInfo> open(const SessionSpec& spec, const WeightsHandle& weights,
                                  const StatesHandle* states = nullptr) override;
  const StatesHandle& states() const override { return states_; }
  bool join(const RankSeat& seat, int block_fd, const std::vector<int>& sockets,
            double patience_s) override;
  // In place of a session, a process without plugins keeps the weights of one on its device, from
  // the checkpoint in this folder or from the seed. The descriptor is the caller's, and good as
  // long as the process lives; checksum() is that of the weights.
  // `local_rank`: which of its machine's ranks they are of.
  std::optional<WeightsHandle> keep(const SessionSpec& spec, uint64_t seed,
                                    const std::string& checkpoint, int local_rank,
                                    const OnProgress& progress);
  std::optional<uint64_t> checksum();
  bool clear() override;
  bool close_session() override;
  // From now on what the session's nodes are called with is kept: tensors in the file, which is the
  // caller's, the rest for recorded(), which ends it. Called again (the file is not looked at
  // then), it names the workload that follows.
  bool record(const RecordOptions& options, int file, const std::string& workload);
  std::optional<Json> recorded();  // CaseRecorder::result(), unchecked
  std::optional<Json> task(const std::string& name, const Json& arguments,
                           const OnProgress& progress, const std::vector<int>& fds = {}) override;
  // The two halves of task(), for who asks several runners at once. tell() asks; heard() takes
  // the answer if it is there and never waits: nothing also means that it has failed.
  bool tell(const std::string& name, const Json& arguments, const std::vector<int>& fds);
  std::optional<Json> heard();
  // Whether its process says that the task is done (TaskServices::done), and only has to answer.
  bool says_done() const {
    return board_ && board_->done.load(std::memory_order_acquire) == tasks_;
  }
  // For the task that tell() has asked for, if it waits for that (TaskServices::await_sign);
  // answer() then waits as task() does.
  void sign(bool go_on);
  std::optional<Json> answer();
  // Where something to hear, or to read of what it prints, can be waited for.
  std::array<int, 2> wakers() const { return {channel_->fd(), child_->log_fd()}; }
  int tick_ms() const { return options_.stopped ? 10 : 100; }  // of who waits for it
  double spin_s() const { return options_.spin_s; }
  // Descriptors that the last answer brought; the caller owns them.
  std::vector<int> take_fds() { return channel_->take_fds(); }
  bool freeze() override;
  void thaw() override;
  void begin_freeze() override {
    if (!failed()) child_->begin_freeze();
  }

  bool begin(bool taps) override;
  void submit(const Request& request) override;
  void close_requests() override;
  std::optional<RunnerEvent> wait(double timeout_s) override;

  void dismiss() override {
    if (child_) child_->kill();
  }
  void condemn(const std::string& kind, const std::string& text) override;
  bool wait_for_end(double seconds) override;
  std::string log() override;
  const std::string& name() const { return options_.name; }
  void another_failed(double stop_s) override;
  double silent_s() const override { return awaited_ || driving_ ? now_seconds() - life_s_ : 0; }
  void set_patience(double seconds) override { options_.patience_s = seconds; }
  void set_open_patience(double seconds) override { options_.open_patience_s = seconds; }
  int64_t held_bytes() override { return child_ ? private_bytes(child_->pid()) : 0; }
  pid_t pid() const { return child_ ? child_->pid() : -1; }
  int threads() const { return child_ ? child_->threads() : 0; }
  std::optional<double> worked_s() const { return child_ ? child_->worked_s() : std::nullopt; }

 private:
  // The longest sleep: what a hostile runner can delay the broker by.
  static constexpr double kTick = 0.1;
  void start();
  std::optional<Json> ask(const Json& message, const std::vector<int>& fds, const char* answer,
                          double patience_s, const OnProgress& progress);
  bool say(const Json& message, const std::vector<int>& fds, double patience_s);
  Json task_message(const std::string& name, const Json& arguments);
  // hear(), again and again.
  std::optional<Json> wait_for(const char* answer, double patience_s, const OnProgress& progress);
  bool take_states(const Json& reply);  // that came with a session's description
  // What of the answer is there; nothing when it is not, or the runner has failed.
  std::optional<Json> hear(const char* answer, double patience_s, const OnProgress& progress);
  bool ends_a_drive(const Json& message);
  void unasked();
  bool said_unasked();               // and is buried for it
  bool handle(const Json& message);  // false when it was an error, which is kept as the failure
  std::optional<RunnerEvent> next_event();
  void flush_requests();
  void sleep(double seconds);
  bool check_alive(double patience_s);
  void bury(const std::string& kind, const std::string& text);
  std::string place_of_hang();
  void ended(int status);
  std::string last_words();
  std::string place() const;

  Options options_;
  SharedMemory shared_;
  Board* board_ = nullptr;
  std::unique_ptr<ChildProcess> child_;
  std::unique_ptr<Channel> channel_;
  RingEvents request_events_, result_events_;
  std::unique_ptr<RingWriter> requests_;
  std::unique_ptr<RecordReader> results_;
  std::vector<std::byte> unsent_;  // of requests, when the ring is full
  size_t unsent_at_ = 0;
  SessionInfo info_;
  StatesHandle states_;
  std::vector<Protection> protections_;
  double life_s_ = 0;               // when it last gave a sign of life
  double asked_s_ = 0;              // when it was last asked
  std::optional<double> missed_s_;  // since when other ranks miss it
  uint64_t tasks_ = 0;              // that it was asked for
  int64_t run_ = 0, ends_ = 0;      // drives, and their ends that were told
  bool driving_ = false, driven_ = false, recording_ = false;
  std::atomic<bool> asks_place_ = true;  // other ranks' threads say that it is over
  std::atomic<double> stop_at_s_ = 1e300;
  bool awaited_ = false;  // it was asked something and has not answered
};

}  // namespace fk
