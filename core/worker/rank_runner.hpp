// SPDX-License-Identifier: Apache-2.0
// The controller's handle of one rank's worker: a `Runner` of this machine, or a worker of another
// machine (remote/remote_runner.hpp).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.hpp"
#include "core/worker/record.hpp"
#include "core/worker/spec.hpp"

namespace fk {

struct RunnerFailure {
  // refused: an error with a text (loading, opening). op_failed: an op returned an error. threw: an
  // op threw an exception. crashed: a signal. exited: it called exit(). hang: it did not answer in
  // time. memory: it used up its memory. protocol: invalid records. environment: the machine
  // refused the host a resource, such as a process. forbidden: an action that a sealed worker may
  // not take. lost: an error on its device, which is unusable from then on. stopped: another rank
  // had failed.
  std::string kind;
  std::string where;      // "paged_attention (model.layers.0.self_attn.attn)" or a stage, or ""
  std::string text;       // "crashed: SIGSEGV at address 0x10 in mine.so+0x1139"
  std::string log;        // the process's output, at most 64 KiB
  std::string next = {};  // the author's next step; empty: the kind is enough
  double time_s = 0, silent_s = 0;  // time of detection, and seconds since its last sign of life
  double waited_s = 0;              // `lost`: its wait for the device
  // "crashed: SIGSEGV ... in rms_norm (model.norm)"
  std::string sentence() const;
};

// A message of a worker, with the controller's clock at the moment it was seen.
struct RunnerEvent {
  enum class Kind { token, logits, tensor, failed, progress, driven, shared };
  Kind kind = Kind::progress;
  double time_s = 0;
  uint64_t id = 0;
  // token: number after the prompt; logits: position; shared: leading tokens that were in the cache
  int64_t index = 0;
  int64_t token = 0;
  bool last = false;
  std::vector<float> values;  // logits
  NamedTensor tensor;
  std::string text;  // failed, progress
};

class RankRunner {
 public:
  RankRunner() = default;
  virtual ~RankRunner() = default;
  RankRunner(const RankRunner&) = delete;
  RankRunner& operator=(const RankRunner&) = delete;

  // ---- one call at a time; each returns false or nothing when the worker has failed ----
  using OnProgress = std::function<void(const Json&)>;
  // Loads baselines first, each group in its order. After a candidate no more can be loaded.
  virtual std::optional<Loaded> load(const std::vector<PluginFile>& plugins) = 0;
  // Opens a session. `states`: the caches of another worker's session, which has the same ones;
  // null: the session makes its own.
  virtual std::optional<SessionInfo> open(const SessionSpec& spec, const WeightsHandle& weights,
                                          const StatesHandle* states) = 0;
  // States (caches) of the last opened session, if its spec shares them. The worker keeps the
  // descriptor.
  virtual const StatesHandle& states() const = 0;
  // Gives it a seat among the ranks that share the block (shared_comm.hpp). Call it before open()
  // or task(). `sockets`: one to each other rank, in their order (peers.hpp), or empty. The caller
  // keeps all descriptors.
  virtual bool join(const RankSeat& seat, int block_fd, const std::vector<int>& sockets,
                    double patience_s) = 0;
  virtual bool clear() = 0;  // states to zero, between independent drives
  // Destroys the session and its instances; this is the last run of plugin code.
  virtual bool close_session() = 0;
  // Runs a task (task.hpp) and returns its answer. `fds` are sent along; the caller keeps them.
  virtual std::optional<Json> task(const std::string& name, const Json& arguments,
                                   const OnProgress& progress, const std::vector<int>& fds) = 0;
  // freeze() stops all threads of the process, thaw() continues them. Requests to a stopped worker
  // wait. freeze() returns false when the worker has ended. A worker is ended if it cannot be
  // stopped, or works while it is stopped.
  virtual bool freeze() = 0;
  virtual void thaw() = 0;
  // Begins a freeze() without waiting; freeze() must follow.
  virtual void begin_freeze() = 0;

  // ---- a drive: begin(), submit() for each request, close_requests(), then wait() until `driven`
  // ----
  virtual bool begin(bool taps) = 0;
  virtual void submit(const Request& request) = 0;  // any time until close_requests
  virtual void close_requests() = 0;
  // The next event; nothing at the end of the time or after a failure of the worker.
  virtual std::optional<RunnerEvent> wait(double timeout_s) = 0;

  bool failed() const { return failure_.has_value(); }
  const RunnerFailure& failure() const { return *failure_; }
  // Ends its process without waiting; the destructor waits. No further requests are allowed.
  virtual void dismiss() = 0;
  // Ends it with a failure found by the controller (a nonsensical result, a deadline).
  virtual void condemn(const std::string& kind, const std::string& text) = 0;
  // For a failed or dismissed worker: waits until its resources are released. False at the end of
  // the time.
  virtual bool wait_for_end(double seconds) = 0;
  virtual std::string log() = 0;
  // Another rank has failed and reports its place, so this worker is not asked for its place when
  // it hangs. It is ended unless it answers within `stop_s` seconds. [any thread]
  virtual void another_failed(double stop_s) = 0;
  // Seconds since its last sign of life while it has work; 0 if another process measures them.
  virtual double silent_s() const { return 0; }
  virtual void set_patience(double seconds) = 0;
  virtual void set_open_patience(double seconds) = 0;
  virtual int64_t held_bytes() = 0;  // private memory, as the kernel counts it

 protected:
  // Reads a message of the process as a struct. A malformed message ends the process. Without a
  // message there is no answer.
  template <class Answer>
  std::optional<Answer> understand(const std::optional<Json>& said, const char* question,
                                   const Reading& how = kForeignMessage) {
    if (!said) return std::nullopt;
    try {
      return from_fields<Answer>(*said, "its answer", how);
    } catch (const Error& e) {
      condemn("protocol", std::string("a malformed answer to ") + question + ": " + e.what());
      return std::nullopt;
    }
  }

  std::optional<RunnerFailure> failure_;
};

}  // namespace fk
