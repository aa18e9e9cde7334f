// SPDX-License-Identifier: Apache-2.0
// One side of a run: a runner, or one for each rank, with its plugins, its session and what is
// known about its pace.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "core/check/plugin_set.hpp"
#include "core/scenario/run_report.hpp"
#include "core/worker/rank_group.hpp"
#include "core/worker/weight_block.hpp"

namespace fk {

class Side {
 public:
  struct Setup {
    std::string name;
    std::vector<PluginFile> files;  // the candidate's, if any, is the last
    SessionSpec spec;
    const WeightBlock* weights = nullptr;  // the first rank's; those of the others follow it
    Runner::Options runner;
    bool smoke_check = false;  // of the candidate's ops, before its session is opened
    // Whose caches it has in its turns, which shares_states and is open: the memory of a GPU is too
    // small for two. Null: its own.
    Side* states_of = nullptr;
  };
  explicit Side(Setup setup) : setup_(std::move(setup)) {}

  // Starts a process, loads, checks and opens; false with why(). It stands still then: who is new
  // would work in the other side's turn. After a failure or close() a further call starts a new
  // process, without the check.
  bool open();
  bool is_open() const { return runner_ && !runner_->failed() && info_; }
  // It stands still afterwards until the next time: who works while others are timed slows them
  // down, and who knows what comes next could begin with it.
  bool drive(const std::vector<Request>& requests, const RoundOptions& options, Round& round);
  void set_patience(double seconds);
  // Ends its session, in which plugin code has the last word; false with why() where that fails.
  bool close();
  // Whether its device works for this side while it stands still, as the other one, whose device it
  // is as well, sees it. Then this one has been ended, with why().
  bool works_on(Side& beside);

  // Why the last open() or drive() failed, in one sentence.
  const std::string& why() const { return why_; }
  bool is_hosts_fault() const { return hosts_; }  // after a failure: nothing is said of the plugin
  // "refused" when the plugin could not be loaded, "wrong" by the check, "violation" by works_on(),
  // else "failed".
  const std::string& verdict() const { return verdict_; }
  std::string log() const { return log_; }
  const SessionInfo& info() const { return *info_; }
  int64_t own_bytes() const;               // of its session, all but the weights as they came
  double gap_s() const { return gap_s_; }  // the longest time without a sign of life
  double open_s() const { return open_s_; }
  // What its processes hold privately, as the kernel counts it; 0 when it is not open.
  int64_t held_bytes() const;
  std::vector<OpRow> ops() const;
  int64_t nodes_of(const std::string& provider) const;
  // Why no node of the model is the candidate's, whose note it is, when it is open.
  std::string why_unused(const PluginNote& note) const;
  // Baselines that could not be loaded, in the last process; others do their work.
  const Unusable& unusable() const { return unusable_; }
  // What protected the host from its candidate, in the last process that it had.
  const std::vector<Protection>& protections() const { return protections_; }

 private:
  // Zeroes its states, so that nobody finds answers there.
  bool clear();
  // How long its device lets it wait for next to nothing; 0 when it has failed.
  double device_wait_s();
  bool fail_with(const std::string& verdict, const std::string& why);
  bool load();
  bool smoke_check();
  Setup setup_;
  std::unique_ptr<RankGroup> runner_;
  std::optional<SessionInfo> info_;
  bool checked_ = false, hosts_ = false;
  std::string why_, verdict_, log_;
  std::vector<std::string> refused_ops_;
  std::vector<Protection> protections_;
  Unusable unusable_;
  double gap_s_ = 0, open_s_ = 0;
};

// The task of a runner that checks a plugin's ops on their smallest cases; core/cli registers it.
inline constexpr const char* kSmokeCheckTask = "smoke_check";

}  // namespace fk
