// SPDX-License-Identifier: Apache-2.0
// One case of a judgement, as the broker conformances it: asks the oracle to deal and to look, lets
// a runner call, and fills the case's verdict.
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

// How the reason begins why a baseline that answers wrongly was passed over.
inline constexpr const char* kItIsWrong = "it is wrong: ";

class CaseRun {
 public:
  CaseRun(JudgePool& room, RankGroup& runners, const std::string& plugin, CaseVerdict& row,
          CaseRunRequest request, double seconds, const Secret& secret, Spent& spent);
  ~CaseRun();
  CaseRun(const CaseRun&) = delete;

  bool open();  // false with the row's status and why
  bool sit();   // the same, of the candidate
  // Once it sits, by rank.
  const std::vector<int64_t>& given_bytes() const { return candidate_.given_bytes; }
  // The same. Where all are right but a null candidate passes as well, the row is untestable.
  bool values();
  // Else `why`, of one that does not refuse the case.
  bool baseline_is_right(CandidateClient& baseline, std::string& why);
  // Of a call, of one that is right; to choose a baseline by, not to judge by.
  double quickest_s(CandidateClient& baseline);
  std::string key() const { return request_.key(); }
  const AskedCase& asked() const { return request_.asked; }
  // A kernel that the candidate has launched and that is a library's, as its process says; empty:
  // none. Calls that are not captured tell nothing.
  const std::string& kernel_of_library() const { return kernel_of_library_; }
  // Candidate against baseline; the row's status is one of speed, or what was found on the way.
  // When the baseline fails, its words are thrown, and the row says nothing of the race.
  struct BaselineFailed {
    std::string why;
  };
  void race(CandidateClient& baseline);

 private:
  class RaceContender;
  struct Look {
    bool ok = true, stale = false, changed = false;
    int content = -1;
    std::string rule, text, undecided;
    double worst = 0;
    std::string field;    // of wrong values: the output
    WrongElements wrong;  // in it
  };
  std::vector<int> ring(int first, int count) const;
  int some_first();  // on a device one of few, because there is a graph for each
  // Between the contents and the call there is nothing, some time, or a flush of everything; or
  // calls are on buffers that those before were on, of a device the first one on one alone; or they
  // are not captured, where they could be.
  enum class Way { usual, late, cold, warm, eager };
  std::optional<CandidateClient::Call> take(CandidateClient& client, int first,
                                            const std::vector<int>& contents,
                                            std::vector<Look>& looks, Way way = Way::usual,
                                            int core = -1);
  int side_of_baseline(const std::string& plugin);
  void enter(const char* part);  // of a sample, for what timing was spent on
  bool accept(const std::vector<Look>& looks, bool timed);
  bool nothing_stray();  // else the row says what was written around tensors of any set
  void blame_stray(const std::string& text);
  // Of those that may be called in the sets from `first` on.
  enum class Of { ordinary, all };
  std::vector<int> some_contents(int first, int count, Of of);
  void renew_contents();  // that a race calls once, for every race but the first
  // How many calls samples of either side have (sample_calls.hpp), which the race may show to have
  // been the wrong numbers.
  bool samples_as_long() const;
  void set_calls(RaceContender& mine, RaceContender& theirs, double seconds);
  bool counts_are_good(const RaceContender& mine, const RaceContender& theirs,
                       const RaceResult& result) const;
  void count_again(RaceContender& mine, RaceContender& theirs, double seconds,
                   const RaceResult& result);
  void penalise_counts();
  // How many calls a sample has that may have so many.
  int calls_of_ranks(int most);
  // A request without calls, after standing still as long as others do; median.
  double wake_s(CandidateClient& client);
  void fresh_rounds(RaceContender& mine, RaceContender& theirs);
  void late_rounds(RaceContender& mine, RaceContender& theirs);
  void cold_rounds(RaceContender& mine, RaceContender& theirs);
  void alone_rounds(RaceContender& mine, RaceContender& theirs);
  void warm_rounds(RaceContender& mine, RaceContender& theirs);
  // Of a copy of as many bytes as a call moves; 0: ranks share what they would copy over, or there
  // is no memory for it.
  double copy_s(int calls);
  // In a short race with all memory of both processes cold.
  Ratio cold_ratio(CandidateClient& baseline, int count);
  // The same calls without a capture, where the race had one on either side: a few samples, after
  // it, whose row comes behind that of the race.
  void eager_row(CandidateClient& baseline, const RaceContender& mine, const RaceContender& theirs);
  // What every row of a race has.
  TimingRow row_of(const RaceResult& result, const RaceContender& mine,
                   const RaceContender& theirs) const;
  // `cold`: cold_ratio(); nothing where nobody gains.
  void conclude_race(const RaceContender& mine, const RaceContender& theirs,
                     const RaceResult& result, const std::optional<Ratio>& cold,
                     const std::string& evidence);
  // Why times say nothing of the candidate, which the row then says; empty: they do.
  std::string why_not_compared() const;
  void fill_nulls(const Json& tried);
  void fill_families();
  void count(const Look& look);

  JudgePool& room_;
  CandidateClient candidate_;
  CaseVerdict& row_;
  CaseRunRequest request_;
  double seconds_;  // of timing
  const Secret& secret_;
  Spent& spent_;
  std::unique_ptr<OpenCaseRun> case_run_;
  Random random_;
  Json shape_;  // what both sides are told
  std::vector<std::string> families_;
  std::vector<std::string> baselines_;      // that have called, by their side
  std::vector<std::vector<int>> ordinary_;  // contents that may be called at any time, by version
  std::map<std::string, FamilyRow> by_family_;
  int sets_ = 0, seen_ = 0;  // contents [0, seen_) may be called at any time
  int kept_ = 0;             // those from here on, which are ordinary, once
  int versions_ = 1;         // of the weights: set i and content i have i % versions_
  int calls_most_ = 1;       // in a sample
  bool plan_ = false, flush_ = false, all_cold_ = false, own_devices_ = false, known_ = false;
  int poison_ = 0, races_ = 0;
  std::string kernel_of_library_;
  double late_s_ = 0;  // that a late call comes after its contents
  double bytes_ = 0, flops_ = 0, roofline_s_ = 0, floor_s_ = 0, wire_ = 0;
  std::unique_ptr<GpuTelemetry> watch_;  // during a race, where the device has one
  Throttling throttling_{nullptr};       // of the race that is held
};

// Fills status, why and rule from a client that did not do what it was asked.
void blame(CaseVerdict& row, CandidateClient& client);
// The same from how its process ended, and from what it said instead of an answer.
void blame_failure(CaseVerdict& row, const RunnerFailure& failure);
void blame_words(CaseVerdict& row, const std::string& words);

}  // namespace fk
