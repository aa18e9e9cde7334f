// SPDX-License-Identifier: Apache-2.0
// The runner of one of several ranks as the broker holds it, wherever it is: a Runner of this
// machine, or one of another (remote/remote_runner.hpp).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/worker/record.hpp"
#include "core/worker/spec.hpp"

namespace fk {

struct RunnerFailure {
  // refused: an error with a text (loading, opening); op_failed: an op returned an error; threw;
  // crashed: a signal; exited; hang; memory; protocol: records that make no sense; environment: the
  // machine refused the host something, such as a process; forbidden: it did what a sealed runner
  // may not; lost: an error on its device, of which nothing more can be asked; stopped: another
  // rank had failed.
  std::string kind;
  std::string where;  // "paged_attention (model.layers.0.self_attn.attn)" or a stage; may be empty
  std::string text;   // "crashed: SIGSEGV at address 0x10 in mine.so+0x1139"
  std::string log;    // what the process printed, at most 64 KiB
  std::string next = {};            // what to look at next; empty: the kind says all
  double time_s = 0, silent_s = 0;  // when it was seen, so long after the last sign of life
  double waited_s = 0;              // `lost`: how long it waited for the device
  // "crashed: SIGSEGV ... in rms_norm (model.norm)"
  std::string sentence() const;
};

// Something that a runner sent, with the broker's clock at the moment it was seen.
struct RunnerEvent {
  enum class Kind { token, logits, tensor, failed, progress, driven };
  Kind kind = Kind::progress;
  double time_s = 0;
  uint64_t id = 0;
  int64_t index = 0;  // token: number after the prompt; logits: position
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

  // ---- one after the other; each returns false or nothing when the runner has failed ----
  struct Loaded {
    struct Refused {
      std::string plugin, op, why;
    };
    std::vector<std::string> errors;  // by file; empty: loaded
    std::vector<Refused> refused;     // ops whose contract does not match
  };
  using OnProgress = std::function<void(const Json&)>;
  // Baselines first, in both groups as listed; then nothing more where a candidate was among them.
  virtual std::optional<Loaded> load(const std::vector<PluginFile>& plugins) = 0;
  // `states`: those of another runner, whose session has the same ones; null: its own.
  virtual std::optional<SessionInfo> open(const SessionSpec& spec, const WeightsHandle& weights,
                                          const StatesHandle* states) = 0;
  // Of the session that was opened last, where its spec shares them. A descriptor stays this
  // runner's.
  virtual const StatesHandle& states() const = 0;
  // Gives it this seat among those that share the block (shared_comm.hpp). Before open() or task().
  // `sockets`: to each other rank in their order (peers.hpp), or none where they need none. All
  // stay the caller's.
  virtual bool join(const RankSeat& seat, int block_fd, const std::vector<int>& sockets,
                    double patience_s) = 0;
  virtual bool clear() = 0;  // states to zero, between independent drives
  // Destroys the session and its instances, plugin code for the last time.
  virtual bool close_session() = 0;
  // `fds` go with it and stay the caller's.
  virtual std::optional<Json> task(const std::string& name, const Json& arguments,
                                   const OnProgress& progress, const std::vector<int>& fds) = 0;
  // Stops all threads of the process, and lets them go on. What is asked of a stopped runner waits.
  // False when it has ended; one that cannot be stopped, or works while it is, is ended.
  virtual bool freeze() = 0;
  virtual void thaw() = 0;
  // Begins a freeze(), which has to follow, without waiting for it.
  virtual void begin_freeze() = 0;

  // ---- a drive: begin, submit, close_requests, events until `driven` ----
  virtual bool begin(bool taps) = 0;
  virtual void submit(const Request& request) = 0;  // any time until close_requests
  virtual void close_requests() = 0;
  // The next event; nothing when the time is over or the runner has failed.
  virtual std::optional<RunnerEvent> wait(double timeout_s) = 0;

  bool failed() const { return failure_.has_value(); }
  const RunnerFailure& failure() const { return *failure_; }
  // Ends its process without waiting for that, which the destructor does. Nothing is asked of it
  // any more.
  virtual void dismiss() = 0;
  // Ends it with a failure that the broker found (a nonsensical result, a deadline).
  virtual void condemn(const std::string& kind, const std::string& text) = 0;
  // Of one that has failed or was dismissed, until it has given back what it had. False when the
  // time is over.
  virtual bool wait_for_end(double seconds) = 0;
  virtual std::string log() = 0;
  // Another rank has failed, and has been asked where: nobody asks this one when it hangs. After
  // so many seconds it is stopped, if it has not answered by then. [any thread]
  virtual void another_failed(double stop_s) = 0;
  // Since its last sign of life, while it has work; 0 where somebody else has that.
  virtual double silent_s() const { return 0; }
  virtual void set_patience(double seconds) = 0;
  virtual void set_open_patience(double seconds) = 0;
  virtual int64_t held_bytes() = 0;  // private memory, as the kernel counts it

 protected:
  std::optional<RunnerFailure> failure_;
};

}  // namespace fk
