// SPDX-License-Identifier: Apache-2.0
// What stays between judgements, so that the next one starts at once: the oracle's process with
// cases that are open ahead, the baseline's process, and a process that waits for a candidate. For
// ops that several ranks call at once, baseline and candidate have a process for each rank.
// Processes of candidates are used once, and so are contents: a verdict tells its secret, after
// which nothing that was made under it is used again.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/check/plugin_set.hpp"
#include "core/judge/device_lock.hpp"
#include "core/judge/gpu_telemetry.hpp"
#include "core/judge/plan/asked_case.hpp"
#include "core/judge/verdict/budget.hpp"
#include "core/judge/verdict/secret.hpp"
#include "core/worker/rank_group.hpp"

namespace fk {

constexpr double kBatchSeconds = 0.5e-3;  // of the calls in one sample, where sets suffice
// That the oracle has for a case's contents and answers, about: of a thorough verdict, after which
// it has as long as CaseRunOptions::families_s for inputs of kinds that are missing; and of a
// default one.
constexpr double kAnswerSeconds = 0.4, kDefaultAnswerSeconds = 0.2;

// A case as it is asked for; equal requests under one secret have equal contents.
struct CaseRunRequest {
  AskedCase asked;
  std::string device;
  int threads = 2;
  std::vector<std::string> families;
  int ranks = 1;         // that call it together
  int hidden_cases = 0;  // of its op's, as CasePlanEntry has it
  bool after = false;    // the same: nobody is timed there
  bool thorough = true;  // JudgeOptions
  std::string key() const;
};

// A case that the oracle has open. Its descriptors are closed with it.
struct OpenCaseRun {
  int id = -1, ranks = 1;
  Json answer;
  std::vector<int> fds;
  OpenCaseRun() = default;
  OpenCaseRun(const OpenCaseRun&) = delete;
  ~OpenCaseRun();
  int64_t bytes() const;  // of memory, about
};

class JudgePool {
 public:
  struct Options {
    std::string device = "cpu";
    bool sandbox = true;  // of candidates
    // Asked while a process is waited for; true ends it: nobody wants the answer any more. The
    // first is for all of them, the second for that of a candidate.
    std::function<bool()> closing, given_up;
  };
  // `plugin set` outlives it. Processes start when they are needed.
  JudgePool(const PluginSet& plugin_set, Options options);
  ~JudgePool();
  const std::string& device() const { return options_.device; }
  // As the oracle's process knows it, "cuda:0 NVIDIA H200"; the same as device() before enter().
  const std::string& device_name() const { return device_name_; }
  bool sandbox() const { return options_.sandbox; }

  // Starts what is missing, all at once. The baselines are in the candidate's process, without the
  // one that it replaces, only where they may be its children. Who gives no sign
  // of life for the patience is stopped. Error when the oracle or the baseline cannot be had; the
  // candidate's process may have failed. There are as many of both as there are ranks.
  std::unique_ptr<RankGroup> enter(const FoundPlugin& candidate, bool children, double patience_s,
                                   int ranks);
  RankGroup& baseline(int ranks) { return *baselines_.at(ranks); }  // after enter()
  // Another one in the place of a baseline's processes that have failed; what they had open is
  // gone. Error when it cannot be had.
  void renew_baseline(int ranks);

  // To the oracle; Error when its process fails.
  Json ask(const char* task, const Json& arguments);
  // A question that is at the oracle before there is an answer to it: it waits for go(), after
  // which it has begun within microseconds. One at a time, and no other question meanwhile.
  class Standby {
   public:
    Standby(JudgePool& room, const char* task, const Json& arguments);
    Standby(const Standby&) = delete;
    ~Standby();  // nobody wants the answer, where there was no go()
    void go();
    Json answer();  // Error when its process fails

   private:
    void sign(bool go_on);
    JudgePool& room_;
    bool signed_ = false, heard_ = false;
  };
  // The turn of one judgement on the device, after what the one before has left.
  // `all`: on every device of its kind, for ranks. `waits` is called while others have it.
  void take_turn(bool all, const std::function<void()>& waits);
  // Who knows of the device's kernels during this turn; null: nobody. Outlives the turn.
  void listen_to(GpuTelemetry* watch) { watch_ = watch; }
  // A candidate's processes end, and after them the turn. Whoever comes next waits for both, but
  // not who asked for the verdict: a GPU's driver takes its time.
  void leave(std::unique_ptr<RankGroup> candidate);

  // From what was opened ahead under this secret, or opened now.
  std::unique_ptr<OpenCaseRun> open(const CaseRunRequest& request, const Secret& secret);
  // Of the oracle and the baseline, when there is time: before the next judgement, or where they
  // hold much memory before the next case is opened. Never throws.
  void close(std::unique_ptr<OpenCaseRun> case_run);

  // Of baselines that were timed in a case (CaseRunRequest::key) the quickest; empty: none was.
  std::string quickest(const std::string& key) const {
    const auto found = quickest_.find(key);
    return found == quickest_.end() ? "" : found->second;
  }
  void remember_quickest(const std::string& key, const std::string& plugin) {
    quickest_[key] = plugin;
  }

  // The hidden variants (hidden_cases.hpp), of rows and of a width, of an op that a candidate took:
  // the next one may as well.
  void remember_taken(const CaseVerdict& row);

  // The secret of a judgement of these cases, which may be open under it already. Each is given
  // away once.
  Secret secret_for(const std::vector<CaseRunRequest>& cases);
  // Does one piece of what the next judgement will want if it is like one of the last ones; false
  // when nothing is left to do, or somebody else has the device. Between judgements only. Error as
  // for enter().
  bool prepare();
  // Of the judgement that goes on.
  Budget& budget() { return budget_; }
  // Whether the last prepare() found somebody else there.
  bool busy() const { return busy_; }

 private:
  // Cases that were asked for together, and the secret that they will have the next time, which
  // nobody but the oracle has seen a seed of.
  struct CasePlan {
    std::vector<CaseRunRequest> cases;
    Secret secret;
  };
  // A candidate that is trusted is the host's own: its processes are not sealed, so ranks may have
  // vendors' libraries.
  enum class Seat { oracle, baseline, candidate, trusted_candidate };
  Runner::Options options_of(Seat seat, double patience_s) const;
  // Of the candidate, on its seat, where none is `ready`, which then loads the others.
  void start_missing(std::unique_ptr<RankGroup>& ready, const std::vector<PluginFile>& others,
                     double patience_s, int ranks, Seat seat);
  // Opens the device in a process and loads the files, where it has not failed.
  void settle_in(RankGroup& group, const std::vector<PluginFile>& files) const;
  std::unique_ptr<OpenCaseRun> open_now(const CaseRunRequest& request, const Secret& secret);
  void close_now(const OpenCaseRun& case_run);
  void close_waiting();
  int64_t bytes_to_close() const;
  void drop_stale();
  bool is_awaited(const CasePlan& case_plan, const CaseRunRequest& request) const;

  const PluginSet& plugin_set_;
  std::map<std::string, std::string> quickest_, taken_;
  std::string device_name_;
  Options options_;
  void see_off();
  std::unique_ptr<DeviceLock> turn_;  // until all of `leaving_` have ended
  GpuTelemetry* watch_ = nullptr;
  std::unique_ptr<Runner> oracle_;
  std::map<int, std::unique_ptr<RankGroup>> baselines_;  // by how many ranks there are
  std::unique_ptr<RankGroup> spare_;                     // of one
  std::vector<std::unique_ptr<RankGroup>> leaving_;
  std::vector<std::unique_ptr<OpenCaseRun>> closing_;
  std::deque<CasePlan> case_plans_;  // the last one asked for first
  std::map<std::string, std::unique_ptr<OpenCaseRun>> ahead_;
  Budget budget_;
  int next_id_ = 0;
  double patience_s_ = 0;  // of the judgement that entered last
  bool busy_ = false;
};

}  // namespace fk
