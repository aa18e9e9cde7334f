// SPDX-License-Identifier: Apache-2.0
// The judge of one candidate's ops, as the broker: it never maps plugin code, owns seeds, clock and
// verdict, and believes nothing that a runner says.
//
// Three kinds of processes: the oracle (oracle_server.hpp), the baseline's runner and the
// candidate's runner (candidate_server.hpp), which share the buffers of a case and nothing else. A
// call in the judged time goes like this:
//   1. the runner stands still (stopped by the kernel) while the oracle deals contents to sets of
//      buffers, poisons outputs and reads other memory until the last cache is cold. An op with a
//      plan() got its numbers, but not its floats, a moment earlier;
//   2. the runner goes on, calls forward() once on each of several sets, and answers;
//   3. it is stopped again, and the oracle compares every output, guard, input and untouched byte.
// Correctness comes first, on all contents (ordinary ones and families), twice with other poison
// and other addresses; then candidate and baseline take turns (A B B A, race_clock.hpp). Two clocks
// must agree: the runner's, which is precise and a claim, and the broker's, which includes the way
// there and back; what they differ by must be what it is for the baseline. Some contents are kept
// back for calls that are timed without having been seen, so that remembered answers show.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/check/plugin_set.hpp"
#include "core/device/launch_facts.hpp"
#include "core/judge/judge_pool.hpp"
#include "core/judge/verdict/secret.hpp"
#include "core/judge/verdict/verdict.hpp"
#include "core/worker/rank_group.hpp"

namespace fk {

struct JudgeOptions {
  double patience_s = 20;  // without a sign of life
  double budget_s = 1800;  // of the whole; 0: without end
  std::string size = "full";
  std::vector<std::string> ops;       // empty: all that the candidate has
  std::vector<std::string> cases;     // empty: all of that size
  std::vector<std::string> families;  // empty: those that fit
  std::string captured;               // folder of recorded cases instead of the contracts'
  // Where calls are told the experts: beside uniform routing one of this skew; 0: the cases' own.
  double skew = 0;
  // Beside the cases as written those of these names, and in these dtypes; "all": every one. They
  // are judged by their values; the time is that of the first row of a case that is taken.
  std::vector<std::string> variants, dtypes;
  double seconds = 1;  // of timing per case, about; 0: correctness alone
  int threads = 2;     // that a provider on the CPU is told it may use
  std::string device = "cpu";
  // Else a default verdict (default_cases.hpp): cases that take the oracle long are left out, one
  // case of an op is timed, and an op that is wrong in a small case is not judged in larger ones.
  bool thorough = true;
  std::function<void(const std::string& what)> on_step;  // what begins
  std::function<void(const CaseVerdict& row)> on_case_end;
};

// One case as one runner sits it, or one of each rank that calls it. Nothing here throws for what
// plugin code does.
class CandidateClient {
 public:
  CandidateClient(RankGroup& runners, std::string plugin)
      : runners_(runners), plugin_(std::move(plugin)) {}
  RankGroup& runners() { return runners_; }
  const std::string& plugin() const { return plugin_; }

  // Why a request was not answered as it should be; empty: a runner failed (runners().failure()).
  const std::string& words() const { return words_; }
  // Of several ranks the one that said so: "rank 1: ", else empty.
  const std::string& who() const { return who_; }
  // Why it did not do what it was asked, in either case.
  std::string why() const {
    return runners_.failed() ? runners_.failure().sentence() : who_ + words_;
  }
  // Whether what failed has taken the device from its process.
  bool lost() const { return lost_; }
  // Both: false with words(), which begin with "refused: " where the plugin refused. The first asks
  // supports() alone.
  bool takes(const Json& shape);
  bool sit(const Json& case_run, const std::vector<int>& fds);
  // `all`: all memory of its process is cold afterwards; `once`: but what one call reads.
  bool arm(int case_run, bool plan, const std::vector<int>& sets, int first, int count, bool all,
           bool once);
  // Whether that was done for these sets before: ranks are ready for each by itself.
  bool armed(const std::vector<int>& sets) const;
  // The claim, in seconds of one call, the slowest rank's, and the broker's seconds of the whole
  // request.
  struct Call {
    double claim_s = 0, wall_s = 0;
    // The same of the slowest rank alone, from when it began itself: what it does, and how long it
    // waits for others, without how late it was woken up.
    double own_s = 0;
    bool captured = false;
    bool late = false;    // some rank's device had to wait for its host, as its process says
    double waited_s = 0;  // for a core, the rank that waited longest
    double early_s = 0;   // of the processors, between the contents and a late call
    // All calls, as the broker's clock has them where that is more than the claim.
    double believed_s(int count, double messages_s) const {
      return std::max(own_s * count, wall_s - messages_s);
    }
    std::optional<LaunchFacts> facts;  // claims, bounded
  };
  // `since` is when the broker's clock began. `core`: as CandidateServer::run.
  // `warm`: one call on the first set alone, as CandidateServer::run_warm. `done`: as of
  // RankGroup::ask_all.
  std::optional<Call> run(int case_run, int first, int count, double since, int core = -1,
                          bool warm = false, bool eager = false,
                          const std::function<void()>& done = {});
  // The rules of `check` on the first smoke case that it takes: state, leaks, threads, instances,
  // claims. What it says of itself, so that nothing is believed that speaks for it.
  struct Conformance {
    std::string case_name, rule, text;  // rule: empty when all were kept
  };
  std::optional<Conformance> conformance(const Json& request);
  double plan_s = 0;
  bool deterministic = true;
  // By rank, what its instances have asked for, as its processes say.
  std::vector<int64_t> given_bytes;
  bool keeps = false;  // arm() makes cold what it keeps between calls

 private:
  // The answers by rank. All stand still afterwards.
  std::optional<std::vector<Json>> ask(const char* task, const Json& arguments,
                                       const std::vector<int>& fds,
                                       const std::function<void()>& done = {});
  std::string rank_text(size_t rank) const;
  RankGroup& runners_;
  std::string plugin_, words_, who_;
  bool lost_ = false;
  std::set<std::pair<int, int>> armed_;
};

// Files that break the lint and ops that no contract matches are told without running anything.
// The seeds come from `secret`; null: from one of the room's. Error when the request is wrong; a
// failing host is a status.
Verdict judge(const FoundPlugin& candidate, const PluginSet& plugin_set, const Catalog& catalog,
              const Secret* secret, JudgePool& room, const JudgeOptions& options);

}  // namespace fk
