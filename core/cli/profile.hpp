// SPDX-License-Identifier: Apache-2.0
// A profile of a candidate's kernels by Nsight Compute, if installed.
#pragma once
#include <string>
#include <vector>

#include "core/store/answer.hpp"

namespace fk {

// The output of `ncu` about the kernels of one call, or a sentence with the reason for none. The
// call has the judged file, device, case, variant, routing and contents. It belongs to the first
// timed case, else to the first right or requested one. The candidate runs again without a sandbox,
// because the profiler must enter its process; at most `patience_s`.
std::string profile_of(const Question& question, const Verdict& verdict, double patience_s);

// The arguments of `ncu` for this.
std::vector<std::string> profiler_words(const Question& question, const Verdict& verdict,
                                        const CaseVerdict& row);

}  // namespace fk
