// SPDX-License-Identifier: Apache-2.0
// A verdict for people. docs/verdict.md describes the JSON, which has the same content.
#pragma once
#include <string>
#include <vector>

#include "core/judge/verdict/verdict.hpp"

namespace fk {

// `every_case`: else only the case of `why` is explained in full, among those with a failure.
std::string verdict_text(const Verdict& verdict, bool colour, bool every_case = true);

// "0.147 (0.138-0.156)"; empty: there is no ratio.
std::string ratio_text(const Ratio& ratio);
// The ops of its cases, each once.
std::vector<std::string> ops_of(const Verdict& verdict);

// One line about a finished case: "rms_norm, case full0: slower, 0.183 (0.180-0.186) times the
// baseline".
std::string case_line(const CaseVerdict& row);

}  // namespace fk
