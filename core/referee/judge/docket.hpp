// SPDX-License-Identifier: Apache-2.0
// Which cases a judgement has, in which order: the contracts' or recorded ones, each with its
// routings and variants.
#pragma once
#include <string>
#include <vector>

#include "core/referee/judge/asked_case.hpp"
#include "core/referee/judge/judge.hpp"

namespace fk {

struct DocketEntry {
  AskedCase asked;
  CaseVerdict row;     // what is known before it is judged; with a `why` it cannot be
  bool extra = false;  // a variant or dtype beside the case as written
};

// Error at the option whose names are not there.
std::vector<DocketEntry> docket(const std::vector<std::string>& ops, const Catalog& catalog,
                                const JudgeOptions& options);

// Once all are judged: fills of_uniform, and leaves out what was refused where the same case was
// taken in another dtype or variant.
void settle(std::vector<CaseVerdict>& rows);

}  // namespace fk
