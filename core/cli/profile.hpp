// SPDX-License-Identifier: Apache-2.0
// A profile of a candidate's kernels by Nsight Compute, if installed.
#pragma once
#include <string>
#include <vector>

#include "core/store/answer.hpp"

namespace fk {

// Fills `profile` and `kernels` of a verdict: the words of `ncu` about one call, or a sentence with
// the reason for none, and its figures. The call has the judged file, device, case, variant, routing
// and contents. It belongs to the first timed case, else to the first right one, of the requested
// cases if possible. The candidate runs again without a sandbox, because the profiler must enter its
// process; at most `patience_s`.
void add_profile(const Question& question, Verdict& verdict, double patience_s);

// The arguments of `ncu` for this.
std::vector<std::string> profiler_words(const Question& question, const Verdict& verdict,
                                        const CaseVerdict& row);

}  // namespace fk
