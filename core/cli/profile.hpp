// SPDX-License-Identifier: Apache-2.0
// A look at a candidate's kernels with Nsight Compute, where it is installed.
#pragma once
#include <string>

#include "core/store/answer.hpp"

namespace fk {

// What `ncu` says about the first kernels of the candidate's first case, or a sentence why there is
// nothing. It judges the candidate once more, without timing and not sealed in, because the
// profiler has to get into its process; at most `patience_s`.
std::string profile_of(const Question& question, const std::string& case_name, double patience_s);

}  // namespace fk
