// SPDX-License-Identifier: Apache-2.0
// Which cases of an op a default verdict judges, and which one it times. The rule looks at sizes
// alone, so a new case needs no entry anywhere. `--thorough` judges and times every case.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"

namespace fk {

// Seconds that the oracle takes for one content of the case, about: to make it, to answer it and to
// compare an answer with it.
double content_seconds(const Contract& contract, const Case& source, bool gpu);

struct DefaultCases {
  std::map<std::string, std::string> left_out;  // the case's name, and why
  std::string timed;                            // the largest that is not left out
};

// The cases from small to large while their examinations fit into the seconds of an op, and the
// smallest one whatever it takes.
DefaultCases default_cases(const Contract& contract, const std::vector<const Case*>& cases,
                           bool gpu);

// So cheap that it is judged whatever has been found before.
bool is_cheap(double content_s);

}  // namespace fk
