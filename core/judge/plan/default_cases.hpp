// SPDX-License-Identifier: Apache-2.0
// Which cases of an op a default verdict judges, and which one it times. The rule looks at sizes
// alone, so a new case needs no entry anywhere. `--thorough` judges and times every case. Range
// cases have a share of seconds for themselves and are never timed.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"

namespace fk {

// An estimate of the oracle's seconds for one input of the case: to make the input, to compute the
// answer and to compare a candidate's answer with it.
double content_seconds(const Contract& contract, const Case& source, bool gpu);

struct DefaultCases {
  std::map<std::string, std::string> left_out;  // the case's name, and why
  std::string timed;                            // the largest that fits into the op's budget
};

// Takes cases from small to large while their estimates fit into an op's budget of seconds. The
// smallest case is always taken, and beyond the budget the smallest of each form (ranks, dtypes,
// optional fields) which takes no longer than a case may.
DefaultCases default_cases(const Contract& contract, const std::vector<const Case*>& cases,
                           bool gpu);

// Range cases that do not fit into their share when they are taken from small to large: the case's
// name, and why. One content of each is called, because the size is what they ask about.
std::map<std::string, std::string> ranges_left_out(const Contract& contract,
                                                   const std::vector<const Case*>& cases, bool gpu);

// True when a case is so cheap that it is judged even after another case of the op has failed.
bool is_cheap(double content_s);

}  // namespace fk
