// SPDX-License-Identifier: Apache-2.0
// Processes which stay between judgements, so that the next one starts at once. They are the oracle
// with cases opened in advance, the baseline, and a process which waits for a candidate. For ops
// between ranks, baseline and candidate have a process per rank. Candidates' processes and contents
// are used once. A verdict reveals its secret, so nothing made with this secret is used again.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/check/plugin_set.hpp"
#include "core/judge/case_messages.hpp"
#include "core/judge/device_lock.hpp"
#include "core/judge/gpu_telemetry.hpp"
#include "core/judge/plan/asked_case.hpp"
#include "core/judge/verdict/budget.hpp"
#include "core/judge/verdict/secret.hpp"
#include "core/worker/rank_group.hpp"

namespace fk {

constexpr double kBatchSeconds = 0.5e-3;  // of the calls in one sample, if there are enough sets
// Seconds of the oracle for a case's contents and answers, about. kAnswerSeconds is for a thorough
// verdict, which has CaseRunOptions::families_s more for missing families.
constexpr double kAnswerSeconds = 0.4, kDefaultAnswerSeconds = 0.2;

// A case with its options. Equal requests under one secret have equal contents.
struct CaseRunRequest {
  AskedCase asked;
  std::string device;
  int threads = 2;
  std::vector<std::string> families;
  int ranks = 1;         // number of ranks that call the case together
  int hidden_cases = 0;  // of the op's cases, see CasePlanEntry
  bool after = false;    // see CasePlanEntry: judged last and not timed
  bool thorough = true;  // see JudgeOptions
  std::string key() const;
};

// A case that the oracle has open. Owns its descriptors.
struct OpenCaseRun {
  int id = -1, ranks = 1;
  CaseOpened answer;
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
    bool sandbox = true;  // for candidates
    // Polled during waits for a process; true ends the wait because the answer is not wanted any
    // more. `closing` is for all processes, `given_up` for the candidate's.
    std::function<bool()> closing, given_up;
  };
  // `plugin_set` outlives this object. Processes start on demand.
  JudgePool(const PluginSet& plugin_set, Options options);
  ~JudgePool();
  const std::string& device() const { return options_.device; }
  // The name in the oracle's process, such as "cuda:0 NVIDIA H200". Before enter() equal to
  // device().
  const std::string& device_name() const { return device_name_; }
  bool sandbox() const { return options_.sandbox; }

  // Starts all missing processes at once: one per rank of candidate and baseline. With `children`,
  // the candidate's process also has the baselines that may be its children, without the one that
  // it replaces. A process without a sign of life for the patience is stopped. Error when oracle or
  // baseline cannot start; the candidate's process may have failed.
  std::unique_ptr<RankGroup> enter(const FoundPlugin& candidate, bool children, double patience_s,
                                   int ranks);
  RankGroup& baseline(int ranks) { return *baselines_.at(ranks); }  // after enter()
  // Replaces failed processes of a baseline. Their open cases are lost. Error when no process can
  // start.
  void renew_baseline(int ranks);

  // Asks the oracle. Error when its process fails.
  template <class Question>
  typename Question::Answer ask(const Question& question) {
    // Progress messages are signs of life.
    auto answer = oracle_->ask(question, [](const Json&) {});
    if (!answer) fail("the oracle", oracle_->failure().sentence());
    return std::move(*answer);
  }
  // A question that waits at the oracle. After go(), the oracle begins within microseconds. One at
  // a time, with no other question meanwhile.
  class Standby {
   public:
    Standby(JudgePool& room, const CaseTurn& turn);
    Standby(const Standby&) = delete;
    ~Standby();  // without go(), drops the question
    void go();
    void wait();  // for the answer; Error when its process fails

   private:
    void sign(bool go_on);
    JudgePool& room_;
    bool signed_ = false, heard_ = false;
  };
  // Takes the device's lock for one judgement, after the last candidate has left. With `all`, on
  // every device of its kind, for ranks. `waits` is called while another process holds it.
  void take_turn(bool all, const std::function<void()>& waits);
  // Telemetry that reports stopped kernels during this turn; null: none. Outlives the turn.
  void listen_to(GpuTelemetry* watch) { watch_ = watch; }
  // Ends the candidate's processes, then gives the lock back, in the background: a GPU's driver
  // takes its time. The next judgement waits for both; the current verdict does not.
  void leave(std::unique_ptr<RankGroup> candidate);

  // Takes a case that was opened ahead under this secret, or opens it now.
  std::unique_ptr<OpenCaseRun> open(const CaseRunRequest& request, const Secret& secret);
  // Closes the case in oracle and baseline when there is time: before the next judgement. A case
  // with much memory is closed before the next case opens. Never throws.
  void close(std::unique_ptr<OpenCaseRun> case_run);

  // The fastest baseline that was timed in a case (CaseRunRequest::key); empty: none.
  std::string quickest(const std::string& key) const {
    const auto found = quickest_.find(key);
    return found == quickest_.end() ? "" : found->second;
  }
  void remember_quickest(const std::string& key, const std::string& plugin) {
    quickest_[key] = plugin;
  }

  // Remembers which hidden variants (hidden_cases.hpp) of an op, rows and width, a candidate took.
  // The next candidate may take them too.
  void remember_taken(const CaseVerdict& row);

  // The secret for a judgement of these cases, some of which may be open under it. Each secret is
  // given out once.
  Secret secret_for(const std::vector<CaseRunRequest>& cases);
  // Does one piece of work for a next judgement that is like a recent one. False when nothing is
  // left, or another process holds the device. Only between judgements. Error as for enter().
  bool prepare();
  // The budget of the current judgement.
  Budget& budget() { return budget_; }
  // True when the last prepare() found another process on the device.
  bool busy() const { return busy_; }

 private:
  // Cases that were asked for together, and the secret for their next judgement. Only the oracle
  // has seen seeds of it.
  struct CasePlan {
    std::vector<CaseRunRequest> cases;
    Secret secret;
  };
  // A trusted candidate is the host's own. Its processes are not sealed, so ranks may use vendors'
  // libraries.
  enum class Seat { oracle, baseline, candidate, trusted_candidate };
  Runner::Options options_of(Seat seat, double patience_s) const;
  // Starts the processes of a seat where none is `ready`. The candidate's process also loads the
  // `others`.
  void start_missing(std::unique_ptr<RankGroup>& ready, const std::vector<PluginFile>& others,
                     double patience_s, int ranks, Seat seat);
  // Opens the device in the processes and loads the files, unless the group has failed.
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
  std::unique_ptr<DeviceLock> turn_;  // held until all of `leaving_` have ended
  GpuTelemetry* watch_ = nullptr;
  std::unique_ptr<Runner> oracle_;
  std::map<int, std::unique_ptr<RankGroup>> baselines_;  // by number of ranks
  std::unique_ptr<RankGroup> spare_;                     // of one rank
  std::vector<std::unique_ptr<RankGroup>> leaving_;
  std::vector<std::unique_ptr<OpenCaseRun>> closing_;
  std::deque<CasePlan> case_plans_;  // the last request first
  std::map<std::string, std::unique_ptr<OpenCaseRun>> ahead_;
  Budget budget_;
  int next_id_ = 0;
  double patience_s_ = 0;  // of the last judgement that entered
  bool busy_ = false;
};

}  // namespace fk
