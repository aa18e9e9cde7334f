// SPDX-License-Identifier: Apache-2.0
// Chooses the cases of an op that a default verdict judges, and the timed one, by their sizes
// alone. So a new case needs no entry anywhere. `--thorough` judges and times every case. Range
// cases have their own share of seconds and are never timed.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"

namespace fk {

// Estimated seconds of the oracle for one input of the case: generation, answer and comparison.
double content_seconds(const Contract& contract, const Case& source, bool gpu);

struct DefaultCases {
  std::map<std::string, std::string> left_out;  // name of a case, reason
  std::string timed;                            // the largest case that fits into the op's budget
};

// Takes cases from small to large while their estimates fit into an op's budget of seconds. Always
// takes the smallest case. Beyond the budget, takes the smallest case of each form (ranks, dtypes,
// optional fields) within the limit for one case.
DefaultCases default_cases(const Contract& contract, const std::vector<const Case*>& cases,
                           bool gpu);

// Range cases that do not fit into their share, taken from small to large: name and reason. One
// content of each is called, because these cases test only the size.
std::map<std::string, std::string> ranges_left_out(const Contract& contract,
                                                   const std::vector<const Case*>& cases, bool gpu);

// True for a cheap case, which is judged even after another case of the op has failed.
bool is_cheap(double content_s);

}  // namespace fk
