// SPDX-License-Identifier: Apache-2.0
// One side of a run: one worker, or one per rank, with plugins, a session, and its measured pace.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/check/plugin_set.hpp"
#include "core/scenario/run_report.hpp"
#include "core/worker/rank_group.hpp"
#include "core/worker/weight_block.hpp"

namespace fk {

class Side {
 public:
  struct Setup {
    std::string name;
    std::vector<PluginFile> files;  // the candidates' files are the last
    SessionSpec spec;
    const WeightBlock* weights = nullptr;  // the first rank's; other ranks' blocks follow it
    Runner::Options runner;
    bool smoke_check = false;  // of the candidates' ops, before its session opens
    // The side whose caches this one uses in its turns, because a GPU's memory is too small for
    // two. That side is open and has shares_states. Null: its own caches.
    Side* states_of = nullptr;
  };
  explicit Side(Setup setup) : setup_(std::move(setup)) {}

  // Starts a process, loads, checks and opens; false with why(). Leaves the process stopped,
  // because it would disturb the other side's turn. After a failure or close() it starts a new
  // process, without the check.
  bool open();
  bool is_open() const { return runner_ && !runner_->failed() && info_; }
  // Drives a round, and leaves the process stopped. A running process would slow the other side's
  // timed turn, and could begin known work early.
  bool drive(const std::vector<Request>& requests, const RoundOptions& options, Round& round);
  // The workers, awake, for a caller which drives them itself. Call it only when open.
  RankGroup& awake();
  // After a failure of awake()'s workers: keeps the reason in why(), and ends them.
  void bury() { fail_with("failed", runner_->failure().sentence()); }
  void set_patience(double seconds);
  // Ends its session, which calls plugin code. False with why() when that fails.
  bool close();
  // True when the device works for this side while it is stopped, as measured by `beside` on the
  // same device. Then this side has been ended, with why().
  bool works_on(Side& beside);

  // The reason of the last failure of open() or drive(), in one sentence.
  const std::string& why() const { return why_; }
  // after a failure: true when the plugin is not at fault
  bool is_hosts_fault() const { return hosts_; }
  // "refused": the plugin did not load. "violation": by works_on(). Else "failed".
  const std::string& verdict() const { return verdict_; }
  // The fault that the check of its ops found; empty: none. The session opens all the same, so that
  // the report has the errors in the model. Among several candidates, only those with a node count.
  std::string wrong_in_check() const;
  // The words that its process printed, or the last process when none runs.
  std::string log();
  const SessionInfo& info() const { return *info_; }
  int64_t own_bytes() const;               // of its session, without the shared weights
  double gap_s() const { return gap_s_; }  // longest time without a sign of life
  double open_s() const { return open_s_; }
  // Private bytes of its processes, as the kernel counts them; 0 when closed.
  int64_t held_bytes() const;
  std::vector<OpRow> ops() const;
  int64_t nodes_of(const std::vector<std::string>& providers) const;
  // Why no node of the model is one of these candidates'. Only when open.
  std::string why_unused(const std::vector<const FoundPlugin*>& candidates) const;
  // Baselines that the last process could not load. Others run their ops.
  const Unusable& unusable() const { return unusable_; }
  // Protections of the host against the candidate, in its last process.
  const std::vector<Protection>& protections() const { return protections_; }

 private:
  // Zeroes its states, so that the other side finds no answers there.
  bool clear();
  // The device's delay of a tiny piece of work in seconds; 0 after a failure.
  double device_wait_s();
  bool fail_with(const std::string& verdict, const std::string& why);
  bool load();
  bool smoke_check();
  Setup setup_;
  std::unique_ptr<RankGroup> runner_;
  std::optional<SessionInfo> info_;
  bool checked_ = false, hosts_ = false;
  std::string why_, verdict_, log_;
  std::vector<std::pair<std::string, std::string>> wrong_in_check_;  // candidate, fault
  std::vector<std::string> refused_ops_;
  std::vector<Protection> protections_;
  Unusable unusable_;
  double gap_s_ = 0, open_s_ = 0;
};

// The task of a worker that checks a plugin's ops on their smallest cases. The answer is the fault
// of the first wrong case; empty: none is wrong.
struct SmokeCheck {
  static constexpr const char* kName = "smoke_check";
  using Answer = std::string;
  std::string plugin, device;
  FK_FIELDS(plugin, device)
};

}  // namespace fk
