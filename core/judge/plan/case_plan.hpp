// SPDX-License-Identifier: Apache-2.0
// Which cases a judgement has, in which order: the contracts' or recorded ones, each with its
// routings and variants, and before them smaller ones, which have what the others leave at its
// default, and range cases, which have an index beyond 16 bits.
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
  CaseVerdict row;           // what is known before it is judged; with a `why` it cannot be
  bool extra = false;        // a variant or dtype beside the case as written
  bool other_dtype = false;  // a dtype
  bool after = false;        // judged when the others are (HiddenCases)
  int hidden_cases = 0;      // of its op's cases so many are judged with hidden rows
  bool timed = true;         // where it is right and nothing else of the case was timed
  bool cheap = true;         // judged whatever was found before; else only what may still be right
};

// What a row says of its case: sizes and hash.
void name_case(CaseVerdict& row, const Contract& contract, PosedCase posed);

// Which of the smaller cases' variants are judged: each once for every op, in the first case that
// the candidate takes; and where it does not take a case as it is written, the first dtype in which
// it does. Asked in the case plan's order.
class SmallerCases {
 public:
  // Of what is not a smaller case always.
  bool wants(const CaseVerdict& row, bool other_dtype);
  void judged(const CaseVerdict& row);  // once its status is known

 private:
  std::string case_;           // the last one that was taken or refused as it is written
  bool as_written_ = false;    // it was taken so
  bool in_a_dtype_ = false;    // or so
  std::set<std::string> had_;  // "op, variant"
};

// Which of those that come after the others are judged: of every op some cases that were right as
// they are written with hidden rows (drawn_of()), each in the first variant that the candidate
// takes and in those that have a part which no such one had, one without rows, and one with a drawn
// width. Asked in an order that nobody knows before.
class HiddenCases {
 public:
  bool wants(const CaseVerdict& row, int hidden_cases) const;
  void judged(const CaseVerdict& row);  // once its status is known, and of the others as well

 private:
  std::set<std::string> right_;        // "op, case"
  std::map<std::string, int> hidden_;  // of those that were taken with hidden rows the parts
  std::map<std::string, int> of_;      // how many, by "op", "op, no rows" and "op, width"
};

// Error where no time can be meant: of a race, or of whoever is only timed.
void check_seconds(double seconds);

// Error at the option whose names are not there. Empty where there are no cases of the size.
std::vector<CasePlanEntry> case_plan(const std::vector<std::string>& ops, const Catalog& catalog,
                                     const JudgeOptions& options);

// The case plan's indices in the order in which they are judged: those that come after the others
// in an order that nobody knows.
std::vector<size_t> order_of(const std::vector<CasePlanEntry>& case_plan, const Secret& secret);

// Fills the row of an op with a communicator that cannot be judged on this device: its ranks cannot
// talk there, or what one of them was given is not known (the row's `why`).
bool cannot_talk(CaseVerdict& row, const std::string& device);

// A default verdict's row where a smaller case of the op has failed. `hidden`: nobody asked for it.
void leave_for_failure(CaseVerdict& row, bool hidden);

// Once all are judged: fills of_uniform, and leaves out what was refused where the same case was
// taken in another dtype or variant, and smaller cases of which nothing can be said.
void settle(std::vector<CaseVerdict>& rows);

}  // namespace fk
