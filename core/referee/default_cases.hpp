// SPDX-License-Identifier: Apache-2.0
// Which cases of an op a default verdict judges, and which one it times. The rule looks at sizes
// alone, so a new case needs no entry anywhere. `--thorough` judges and times every case.
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
  std::string timed;                            // the largest that is not left out
};

// Takes cases from small to large while their estimates fit into an op's budget of seconds. The
// smallest case is always taken.
DefaultCases default_cases(const Contract& contract, const std::vector<const Case*>& cases,
                           bool gpu);

// True when a case is so cheap that it is judged even after another case of the op has failed.
bool is_cheap(double content_s);

}  // namespace fk
