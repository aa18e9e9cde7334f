// SPDX-License-Identifier: Apache-2.0
// The judge of one candidate's ops, in the controller. It maps no plugin code, owns seeds, clock
// and verdict, and believes no worker.
//
// There are three kinds of processes: the oracle (oracle_server.hpp), the baseline's worker and the
// candidate's worker (candidate_server.hpp). They share the buffers of a case and nothing else. A
// timed call has these steps:
//   1. The worker is stopped by the kernel. The oracle deals contents to sets of buffers, poisons
//      outputs, and reads other memory until the last cache is cold. An op with a plan() got its
//      numbers, but not its floats, a moment earlier.
//   2. The worker continues, calls forward() once on each of several sets, and answers.
//   3. The worker is stopped again. The oracle compares each output, guard, input and untouched
//   byte.
// Correctness comes first, on all contents (ordinary ones and families). Each comes twice, with
// other poison and other addresses. Then candidate and baseline take turns (A B B A,
// race_clock.hpp). Two clocks must agree. The worker's clock is precise, and a claim. The
// controller's clock includes the messages. Their difference must be as it is for the baseline.
// Some contents are held back for timed calls, so that remembered answers show.
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
  double patience_s = 20;  // seconds without a sign of life
  double budget_s = 1800;  // for the whole verdict; 0: no limit
  std::string size = "full";
  std::vector<std::string> ops;       // empty: all of the candidate's
  std::vector<std::string> cases;     // empty: all of that size
  std::vector<std::string> families;  // empty: all that fit
  std::string captured;               // folder of recorded cases; empty: the contracts' cases
  // For ops with expert ids: a routing of this skew and the uniform one. 0: the cases' own
  // routing.
  double skew = 0;
  // Variants and dtypes in addition to the cases as written; "all" means every one. They are judged
  // by values. The time is that of the first row of a case that is taken.
  std::vector<std::string> variants, dtypes;
  double seconds = 1;  // for timing per case, about; 0: correctness only
  int threads = 2;     // threads that a CPU provider may use
  std::string device = "cpu";
  // false: a default verdict (default_cases.hpp). It leaves out cases with a slow oracle, and times
  // one case of each op. After a failure in a small case, an op's larger cases are not judged.
  bool thorough = true;
  std::function<void(const std::string& what)> on_step;  // gets the name of the next step
  std::function<void(const CaseVerdict& row)> on_case_end;
};

// One case in the worker of one side, or in one worker per rank. Nothing here throws because of
// plugin code.
class CandidateClient {
 public:
  CandidateClient(RankGroup& runners, std::string plugin)
      : runners_(runners), plugin_(std::move(plugin)) {}
  RankGroup& runners() { return runners_; }
  const std::string& plugin() const { return plugin_; }

  // Why a request failed; empty: a worker failed (`runners().failure()`).
  const std::string& words() const { return words_; }
  // With several ranks, the one that gave words(): "rank 1: "; else empty.
  const std::string& who() const { return who_; }
  // Why a request failed, in either case.
  std::string why() const {
    return runners_.failed() ? runners_.failure().sentence() : who_ + words_;
  }
  // True when the failure took the device away from its process.
  bool lost() const { return lost_; }
  // Both return false with words(), which begin with "refused: " when the plugin refused. takes()
  // asks supports() only.
  bool takes(const AskedCase& asked, const std::string& device);
  bool sit(CaseBegin shape, const std::vector<int>& fds);
  // `all`: all memory of its process is cold afterwards; `once`: except the data that one call
  // reads.
  bool arm(int case_run, bool plan, const std::vector<int>& sets, int first, int count, bool all,
           bool once);
  // True when arm() did this for these sets before. Each rank is ready by itself.
  bool armed(const std::vector<int>& sets) const;
  // Times of one request. claim_s: seconds of one call as the slowest rank claims. wall_s: the
  // controller's seconds for the whole request.
  struct Call {
    double claim_s = 0, wall_s = 0;
    // As claim_s, from the rank's own begin: its work and its wait for other ranks, without a late
    // wake-up.
    double own_s = 0;
    bool captured = false;
    bool late = false;    // a process says that its device waited for the host
    double waited_s = 0;  // for a core, in the rank with the longest wait
    double early_s = 0;   // processor time between the contents and a late call
    // Seconds of all calls: the claim, or the controller's clock if that is more.
    double believed_s(int count, double messages_s) const {
      return std::max(own_s * count, wall_s - messages_s);
    }
    std::optional<LaunchFacts> facts;  // claims, bounded
  };
  // `since`: begin by the controller's clock. `core`: see CandidateServer::run. `warm`: one call on
  // the first set only, see CandidateServer::run_warm. `done`: see RankGroup::ask_all.
  std::optional<Call> run(int case_run, int first, int count, double since, int core = -1,
                          bool warm = false, bool eager = false,
                          const std::function<void()>& done = {});
  // The rules of `check` on the first smoke case that the plugin takes: state, leaks, threads,
  // instances, claims. The plugin's process reports them, so only faults are believed.
  std::optional<CaseConformed> conformance(CaseConformance request);
  double plan_s = 0;
  bool deterministic = true;
  // Bytes that instances asked for, by rank, as their processes report.
  std::vector<int64_t> given_bytes;
  bool keeps = false;  // true: arm() makes the memory between calls cold

 private:
  // The answers by rank. All stand still afterwards. Nothing where one was not done.
  template <class Question>
  std::optional<std::vector<typename Question::Answer::Value>> ask(
      const Question& question, const std::vector<int>& fds = {},
      const std::function<void()>& done = {}) {
    words_.clear();
    who_.clear();
    auto said = runners_.ask_all(question, fds, done);
    if (!said) return std::nullopt;
    std::vector<typename Question::Answer::Value> answers;
    std::vector<NotDone> failed(said->size());
    for (size_t r = 0; r < said->size(); ++r) {
      auto& [why, answer] = (*said)[r];
      if (!why && !answer) {
        runners_.condemn("protocol", rank_text(r) + "a malformed answer to " + Question::kName);
        return std::nullopt;
      }
      if (why && why->why.empty()) why->why = "failed without words";
      if (why) failed[r] = std::move(*why);
      if (answer) answers.push_back(std::move(*answer));
    }
    if (any_failed(failed)) return std::nullopt;
    return answers;
  }
  // Keeps the words of the rank to be named; an entry without words has not failed.
  bool any_failed(const std::vector<NotDone>& ranks);
  std::string rank_text(size_t rank) const;
  RankGroup& runners_;
  std::string plugin_, words_, who_;
  bool lost_ = false;
  std::set<std::pair<int, int>> armed_;
};

// Judges a candidate. Files that break the lint, and ops that match no contract, are reported
// without a run. Seeds come from `secret`; null: from a secret of the pool. Error when the request
// is wrong; a failing host is a status.
Verdict judge(const FoundPlugin& candidate, const PluginSet& plugin_set, const Catalog& catalog,
              const Secret* secret, JudgePool& room, const JudgeOptions& options);

}  // namespace fk
