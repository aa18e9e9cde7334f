// SPDX-License-Identifier: Apache-2.0
// The controller's side of one case. It asks the oracle to deal and compare, lets workers call, and
// fills the row of the case.
#pragma once
#include <map>

#include "core/base/spent.hpp"
#include "core/cases/numerics/judgement.hpp"
#include "core/judge/gpu_telemetry.hpp"
#include "core/judge/judge.hpp"
#include "core/judge/judge_pool.hpp"
#include "core/judge/timing_penalty.hpp"
#include "core/tensor/random.hpp"

namespace fk {

// Prefix of the reason in passed_over for a baseline with a wrong answer.
inline constexpr const char* kItIsWrong = "it is wrong: ";

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

 private:
  class RaceContender;
  using Look = SetFinding;
  std::vector<int> ring(int first, int count) const;
  int some_first();  // on a device one of few, because each has a graph
  // usual: contents, then calls. late: a pause in between. cold: a flush of all caches in between.
  // warm: buffers of the calls before; on a device one call. eager: calls without a capture.
  enum class Way { usual, late, cold, warm, eager };
  std::optional<CandidateClient::Call> take(CandidateClient& client, int first,
                                            const std::vector<int>& contents,
                                            std::vector<Look>& looks, Way way = Way::usual,
                                            int core = -1, bool words = true);
  int side_of_baseline(const std::string& plugin);
  void enter(const char* part);  // begins a part of `spent`, the record of time
  bool accept(const std::vector<Look>& looks, bool timed);
  // After a wrong value: repeats the call, and says so where the wrong elements differ.
  void repeat_wrong_call(int set, const Look& wrong);
  bool nothing_stray();  // false: the row names writes around tensors of any set
  void blame_stray(const std::string& text);
  // Contents that may be called in the sets from `first` on.
  enum class Of { ordinary, all };
  std::vector<int> some_contents(int first, int count, Of of);
  void renew_contents();  // new contents for one call each, in every race but the first
  // True when both sides' samples take equally long, with different numbers of calls
  // (sample_calls.hpp): on a device with one rank. The race may show that the numbers were wrong;
  // count_again() corrects them.
  bool samples_as_long() const;
  void set_calls(RaceContender& mine, RaceContender& theirs, double seconds);
  bool counts_are_good(const RaceContender& mine, const RaceContender& theirs,
                       const RaceResult& result) const;
  void count_again(RaceContender& mine, RaceContender& theirs, double seconds,
                   const RaceResult& result);
  void penalise_counts();
  // Number of calls in a sample: `most`, or with several ranks a random number from half of it on.
  int calls_of_ranks(int most);
  // Median seconds of a request without calls, after a stop as long as in other samples.
  double wake_s(CandidateClient& client);
  void fresh_rounds(RaceContender& mine, RaceContender& theirs);
  void late_rounds(RaceContender& mine, RaceContender& theirs);
  void cold_rounds(RaceContender& mine, RaceContender& theirs);
  void alone_rounds(RaceContender& mine, RaceContender& theirs);
  void warm_rounds(RaceContender& mine, RaceContender& theirs);
  // Seconds of one call's bytes in a copy, as one of `calls` copies. 0: there are several ranks, or
  // memory is short.
  double copy_s(int calls);
  // A short race with all memory of both processes cold.
  Ratio cold_ratio(CandidateClient& baseline, int count);
  // A few samples without a capture, after a race in which a side had one. Its row follows the
  // race's row.
  void eager_row(CandidateClient& baseline, const RaceContender& mine, const RaceContender& theirs);
  // Fills the fields that every row of a race has.
  TimingRow row_of(const RaceResult& result, const RaceContender& mine,
                   const RaceContender& theirs) const;
  // `cold` is the result of cold_ratio(); nothing where the candidate is not faster.
  void conclude_race(const RaceContender& mine, const RaceContender& theirs,
                     const RaceResult& result, const std::optional<Ratio>& cold,
                     const std::string& evidence);
  // Empty, or why times say nothing about the candidate; the row gets it.
  std::string why_not_compared() const;
  void fill_families();
  void count(const Look& look);

  JudgePool& room_;
  CandidateClient candidate_;
  CaseVerdict& row_;
  CaseRunRequest request_;
  double seconds_;  // for timing
  const Secret& secret_;
  Spent& spent_;
  std::unique_ptr<OpenCaseRun> case_run_;
  Random random_;
  CaseBegin shape_;  // what both sides are told
  std::vector<std::string> families_;
  std::vector<std::string> baselines_;      // baselines that have called; the index is their side
  std::vector<std::vector<int>> ordinary_;  // contents for calls at any time, by version
  std::map<std::string, FamilyRow> by_family_;
  int sets_ = 0, seen_ = 0;  // contents [0, seen_): for calls at any time
  int kept_ = 0;             // contents from here on are ordinary, and for one call each
  int versions_ = 1;         // of weights: set i and content i have version i % versions_
  int calls_most_ = 1;       // in a sample
  bool plan_ = false, flush_ = false, all_cold_ = false, own_devices_ = false, known_ = false;
  int poison_ = 0, races_ = 0;
  std::string kernel_of_library_;
  double late_s_ = 0;  // pause between contents and a late call
  double bytes_ = 0, flops_ = 0, roofline_s_ = 0, floor_s_ = 0, wire_ = 0;
  std::unique_ptr<GpuTelemetry> watch_;  // during a race; null: the device has none
  Throttling throttling_{nullptr};       // of the current race
};

// Fills status, why and rule from a client that failed a request.
void blame(CaseVerdict& row, CandidateClient& client);
// As blame(), from the end of its process, and from its words in place of an answer.
void blame_failure(CaseVerdict& row, const RunnerFailure& failure);
void blame_words(CaseVerdict& row, const std::string& words);

}  // namespace fk
