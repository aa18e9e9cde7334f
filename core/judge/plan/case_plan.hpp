// SPDX-License-Identifier: Apache-2.0
// The cases of a judgement in order: contracts' or recorded cases, each with its routings and
// variants. Before them come smaller cases, which cover options that larger cases leave at
// defaults, and range cases, which have an index beyond 16 bits.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "core/judge/judge.hpp"
#include "core/judge/plan/asked_case.hpp"
#include "core/judge/verdict/secret.hpp"

namespace fk {

struct CasePlanEntry {
  AskedCase asked;
  CaseVerdict row;           // known before judging; a `why` means that it cannot be judged
  bool extra = false;        // a variant or dtype, not the case as written
  bool other_dtype = false;  // a dtype
  bool after = false;        // judged after the others (HiddenCases)
  int hidden_cases = 0;      // number of the op's cases to judge with hidden rows
  bool timed = true;         // timed if it is right and no other row of the case was timed
  bool cheap = true;  // judged after any finding; false: only while the op may still be right
};

// Fills the sizes and the hash of a row's case.
void name_case(CaseVerdict& row, const Contract& contract, PosedCase posed);

// Chooses the variants of smaller cases to judge. Each variant is judged once per op, in the first
// case that the candidate takes. If it refuses a case as written, the first dtype that it takes is
// judged. Asked in the plan's order.
class SmallerCases {
 public:
  // Always true for a case that is not a smaller one.
  bool wants(const CaseVerdict& row, bool other_dtype);
  void judged(const CaseVerdict& row);  // once its status is known

 private:
  std::string case_;           // the last case taken or refused as written
  bool as_written_ = false;    // that case was taken as written
  bool in_a_dtype_ = false;    // that case was taken in a dtype
  std::set<std::string> had_;  // "op, variant"
};

// Chooses the cases to judge after the others. For each op, some cases that were right as written
// are judged with hidden rows (hidden_of()). Each is judged in the first variant that the candidate
// takes, and in variants with a part that no earlier one had. One case without rows and one with a
// hidden width follow. Asked in a secret order.
class HiddenCases {
 public:
  bool wants(const CaseVerdict& row, int hidden_cases) const;
  void judged(const CaseVerdict& row);  // for all rows, once their status is known

 private:
  std::set<std::string> right_;        // "op, case"
  std::map<std::string, int> hidden_;  // parts of the variants that were taken with hidden rows
  std::map<std::string, int> of_;  // how many were judged, by "op", "op, no rows" and "op, width"
};

// Error when the seconds make no sense as a time for a race.
void check_seconds(double seconds);

// Error at the option with unknown names. Empty when there are no cases of the size.
std::vector<CasePlanEntry> case_plan(const std::vector<std::string>& ops, const Catalog& catalog,
                                     const JudgeOptions& options);

// Indices of the plan in the order of judging. Hidden cases come last, in a secret order.
std::vector<size_t> order_of(const std::vector<CasePlanEntry>& case_plan, const Secret& secret);

// True if an op with a communicator cannot be judged on this device: ranks cannot communicate here,
// or the data of a rank is unknown. Fills the row's `why`.
bool cannot_talk(CaseVerdict& row, const std::string& device);

// Fills a default verdict's row when a smaller case of the op has failed. `hidden`: the case was
// not asked for.
void leave_for_failure(CaseVerdict& row, bool hidden);

// Call after all cases. Fills of_uniform. Removes refused rows whose case was taken in another
// dtype or variant, and smaller cases without a result.
void settle(std::vector<CaseVerdict>& rows);

}  // namespace fk
