// SPDX-License-Identifier: Apache-2.0
// The controller's side of one case. It asks the oracle to deal and compare, lets workers call, and
// fills the row of the case. race/case_race.hpp has the timed part.
#pragma once
#include <map>

#include "core/base/spent.hpp"
#include "core/cases/numerics/judgement.hpp"
#include "core/judge/judge.hpp"
#include "core/judge/judge_pool.hpp"
#include "core/tensor/random.hpp"

namespace fk {

// Prefix of the reason in passed_over for a baseline with a wrong answer.
inline constexpr const char* kItIsWrong = "it is wrong: ";

// An open case, as the oracle describes it.
struct CaseFacts {
  std::vector<std::string> families;  // by content
  int sets = 0, seen = 0;             // contents [0, seen): for calls at any time
  int kept = 0;                       // contents from here on are ordinary, and for one call each
  int versions = 1;                   // of weights: set i and content i have version i % versions
  int calls_most = 1;                 // in a sample
  bool plan = false, own_devices = false;
  bool known = false;  // all inputs are recorded
  double bytes = 0, flops = 0, wire = 0, roofline_s = 0, floor_s = 0;
};

// How calls of a sample are made.
struct SampleOptions {
  // usual: contents, then calls. late: a pause in between. cold: a flush of all caches in between.
  // warm: buffers of the calls before; on a device one call. eager: calls without a capture.
  enum class Way { usual, late, cold, warm, eager };
  Way way = Way::usual;
  int core = -1;          // of the calls; -1: any
  bool flush = false;     // the caches are flushed before
  bool all_cold = false;  // all memory of the calling process is cold before
  double pause_s = 0;     // of a late sample
  bool words = true;      // the oracle explains wrong outputs
};

class CaseRun {
 public:
  CaseRun(JudgePool& room, RankGroup& runners, const std::string& plugin, CaseVerdict& row,
          CaseRunRequest request, double seconds, const Secret& secret, Spent& spent);
  ~CaseRun();
  CaseRun(const CaseRun&) = delete;

  bool open();  // false: the row has status and why
  bool sit();   // as open(), for the candidate
  // By rank; after sit().
  const std::vector<int64_t>& given_bytes() const { return candidate_.given_bytes; }
  // As open(). If all answers are right but a mutant passes too, the row is untestable.
  bool values();
  // On false, `why` is set unless the baseline refuses the case.
  bool baseline_is_right(CandidateClient& baseline, std::string& why);
  // Seconds of one right call, to choose a baseline; not for judging.
  double quickest_s(CandidateClient& baseline);
  std::string key() const { return request_.key(); }
  const AskedCase& asked() const { return request_.asked; }
  // Name of a vendor library's kernel that the candidate launched, as its process reports; empty:
  // none. Only captured calls tell.
  const std::string& kernel_of_library() const { return kernel_of_library_; }
  // Races candidate and baseline. The row gets a status of speed, or the fault that was found.
  // BaselineFailed is thrown with the baseline's words; then the row says nothing about the race.
  struct BaselineFailed {
    std::string why;
  };
  void race(CandidateClient& baseline);

  // Parts of samples, for race/.
  using Look = SetFinding;
  const CaseFacts& facts() const { return facts_; }
  int id() const { return case_run_->id; }
  const CaseRunRequest& request() const { return request_; }
  bool on_cpu() const { return request_.device == "cpu"; }
  JudgePool& room() { return room_; }
  CandidateClient& candidate() { return candidate_; }
  CaseVerdict& row() { return row_; }
  const CaseVerdict& row() const { return row_; }
  double seconds() const { return seconds_; }  // for timing
  int64_t random(int64_t low, int64_t high) { return random_.integer(low, high); }
  int some_first();  // on a device one of few, because each has a graph
  // Contents that may be called in the sets from `first` on.
  enum class Of { ordinary, all };
  std::vector<int> some_contents(int first, int count, Of of);
  // New contents for one call each, in every race but the first.
  void renew_contents();
  void change_poison() { ++poison_; }
  // Makes one sample. Nothing when the client failed.
  std::optional<CandidateClient::Call> take(CandidateClient& client, int first,
                                            const std::vector<int>& contents,
                                            std::vector<Look>& looks, const SampleOptions& options);
  // Fills the row from the oracle's findings. False when something is wrong.
  bool accept(const std::vector<Look>& looks, bool timed);
  void blame_stray(const std::string& text);

 private:
  struct Sample;
  void enter(const SampleOptions& options, const char* part);  // begins a part of `spent`
  bool deal(const Sample& sample);
  std::optional<CandidateClient::Call> timed_calls(const Sample& sample);
  std::vector<Look> looked_at(const Sample& sample);
  std::vector<int> ring(int first, int count) const;
  int side_of_baseline(const std::string& plugin);
  // After a wrong value: repeats the call, and says so where the wrong elements differ.
  void repeat_wrong_call(int set, const Look& wrong);
  bool nothing_stray();  // false: the row names writes around tensors of any set
  void fill_families();
  void count(const Look& look);

  JudgePool& room_;
  CandidateClient candidate_;
  CaseVerdict& row_;
  CaseRunRequest request_;
  double seconds_;
  const Secret& secret_;
  Spent& spent_;
  std::unique_ptr<OpenCaseRun> case_run_;
  Random random_;
  CaseBegin shape_;  // what both sides are told
  CaseFacts facts_;
  std::vector<std::string> baselines_;      // baselines that have called; the index is their side
  std::vector<std::vector<int>> ordinary_;  // contents for calls at any time, by version
  std::map<std::string, FamilyRow> by_family_;
  int poison_ = 0, races_ = 0;
  std::string kernel_of_library_;
};

// Fills status, why and rule from a client that failed a request.
void blame(CaseVerdict& row, CandidateClient& client);
// As blame(), from the end of its process, and from its words in place of an answer.
void blame_failure(CaseVerdict& row, const RunnerFailure& failure);
void blame_words(CaseVerdict& row, const std::string& words);

}  // namespace fk
