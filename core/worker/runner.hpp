// SPDX-License-Identifier: Apache-2.0
// The controller's handle of a worker: a process that loads plugins and runs a session or a task.
// No action of plugin code makes it throw or block longer than the patience. Such an action becomes
// a RunnerFailure. The process has then ended or is ending: it runs no more code, but its device
// resources may be released a moment later.
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
#include "core/worker/board.hpp"
#include "core/worker/channel.hpp"
#include "core/worker/messages.hpp"
#include "core/worker/process.hpp"
#include "core/worker/rank_runner.hpp"
#include "core/worker/record.hpp"

namespace fk {

class Runner final : public RankRunner {
 public:
  struct Options {
    std::string name = "runner";                     // for messages
    int64_t private_bytes_max = 0;                   // 0: no limit
    double patience_s = 60;                          // without a sign of life while it works
    double open_patience_s = 300;                    // for loading and opening
    uint64_t payload_bytes_max = uint64_t{1} << 28;  // of one result
    std::string executable = "/proc/self/exe";
    bool sends_fds = false;         // a trusted process, whose answers may contain descriptors
    bool sandbox = true;            // seal it before it loads a candidate
    std::string device = "cpu";     // the device it will use: opened before it is sealed
    std::vector<std::string> read;  // files and folders that it reads while sealed
    // Changes to its own user at once, if a device is opened before a candidate is loaded.
    bool early_user = false;
    // Polled during waits; true ends the worker (`environment`).
    std::function<bool()> given_up;
    // A descriptor that ends wait() when it can be read, without an event; not owned. -1: none.
    int waker = -1;
    // Polled during waits: the reason why its work on the device never ends, which counts as a
    // crash; empty: go on.
    std::function<std::string()> stopped;
    // Polled during waits: the call for which other ranks waited in vain ("did not come to ...").
    // It counts as a hang unless the worker finishes soon. Empty: no rank waits in vain.
    std::function<std::string()> missed;
    LaunchAgent* agent = nullptr;  // starts the process; null: this process does
    // Seconds for which this process polls for an answer, and the worker for a request, without
    // sleeping. Needs idle cores.
    double spin_s = 0, its_spin_s = 0;
  };
  // Starts the process; a failure is in failure() too.
  explicit Runner(Options options);
  ~Runner() override;  // ends the process

  std::optional<Loaded> load(const std::vector<PluginFile>& plugins) override;
  // The host's protections from the loaded candidate, reported before the load; empty without a
  // candidate.
  const std::vector<Protection>& protections() const { return protections_; }
  std::optional<SessionInfo> open(const SessionSpec& spec, const WeightsHandle& weights,
                                  const StatesHandle* states = nullptr) override;
  const StatesHandle& states() const override { return states_; }
  bool join(const RankSeat& seat, int block_fd, const std::vector<int>& sockets,
            double patience_s) override;
  // Without a session: a process without plugins keeps a session's weights on its device, from the
  // checkpoint in this folder or from the seed. The caller owns the descriptor, which is valid as
  // long as the process lives. checksum() is the weights' checksum. `local_rank`: the rank on its
  // machine whose weights these are.
  std::optional<WeightsHandle> keep(const SessionSpec& spec, uint64_t seed,
                                    const std::string& checkpoint, int local_rank,
                                    const OnProgress& progress);
  std::optional<uint64_t> checksum();
  bool clear() override;
  bool close_session() override;
  // Records the inputs of the session's nodes from now on. Tensors go into the file, which the
  // caller keeps; recorded() returns other data and ends the recording. A further call names the
  // next workload and ignores the file.
  bool record(const RecordOptions& options, int file, const std::string& workload);
  std::optional<Recording> recorded();  // unchecked
  std::optional<Json> task(const std::string& name, const Json& arguments,
                           const OnProgress& progress, const std::vector<int>& fds = {}) override;
  // The same of a task by its question (task.hpp).
  template <class Question>
  std::optional<typename Question::Answer> ask(const Question& question,
                                               const OnProgress& progress = {}) {
    return understand<typename Question::Answer>(
        task(Question::kName, to_fields(question), progress), Question::kName, kForeignText);
  }
  // The two halves of task(), to ask several workers at once. tell() asks. heard() returns the
  // answer if it has arrived and never waits; nothing can also mean a failure.
  bool tell(const std::string& name, const Json& arguments, const std::vector<int>& fds);
  std::optional<Json> heard();
  // True if its process reports the task as done (TaskServices::done), so that only the answer is
  // missing.
  bool says_done() const {
    return board_ && board_->done.load(std::memory_order_acquire) == tasks_;
  }
  // Signs the task asked by tell(), if the task waits for the sign (TaskServices::await_sign).
  // answer() then waits like task().
  void sign(bool go_on);
  std::optional<Json> answer();
  // Descriptors to poll for messages and for output of the process.
  std::array<int, 2> wakers() const { return {channel_->fd(), child_->log_fd()}; }
  int tick_ms() const { return options_.stopped ? 10 : 100; }  // for processes that wait for it
  double spin_s() const { return options_.spin_s; }
  // Descriptors received with the last answer; the caller owns them.
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
  // The longest sleep: the most by which a hostile worker can delay the controller.
  static constexpr double kTick = 0.1;
  void start();
  template <class Message>
  std::optional<typename Message::Answer> send(const Message& message, const std::vector<int>& fds,
                                               double patience_s, const OnProgress& progress = {}) {
    if (!say(message_json(message), fds, patience_s)) return std::nullopt;
    return understand<typename Message::Answer>(wait_for_result(patience_s, progress),
                                                Message::kName);
  }
  // Sends a question; false after a failure.
  bool say(const Json& message, const std::vector<int>& fds, double patience_s);
  messages::Perform perform(const std::string& name, const Json& arguments);
  // Repeats hear() until the end of the time.
  std::optional<Json> wait_for_result(double patience_s, const OnProgress& progress);
  bool take_states(int64_t bytes);  // that came with a session's description
  // The answer, if it has arrived; nothing otherwise, or after a failure of the worker.
  std::optional<Json> hear(double patience_s, const OnProgress& progress);
  bool ends_a_drive(const Json& message);
  void unasked();
  bool said_unasked();               // also fails the worker
  bool handle(const Json& message);  // false for an error, kept as the failure
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
  std::vector<std::byte> unsent_;  // of requests while the ring is full
  size_t unsent_at_ = 0;
  SessionInfo info_;
  StatesHandle states_;
  std::vector<Protection> protections_;
  double life_s_ = 0;               // time of its last sign of life
  double asked_s_ = 0;              // time of the last question
  std::optional<double> missed_s_;  // since when other ranks wait for it
  uint64_t tasks_ = 0;              // number of tasks asked
  int64_t run_ = 0, ends_ = 0;      // drives, and reported ends of drives
  bool driving_ = false, driven_ = false, recording_ = false;
  std::atomic<bool> asks_place_ = true;    // threads of other ranks set it to false
  std::atomic<double> stop_at_s_ = 1e300;  // 1e300: never
  bool awaited_ = false;                   // a question is unanswered
};

}  // namespace fk
