// SPDX-License-Identifier: Apache-2.0
// A look at a candidate's kernels with Nsight Compute, where it is installed.
#pragma once
#include <string>
#include <vector>

#include "core/store/answer.hpp"

namespace fk {

// What `ncu` says about the kernels of one call, or a sentence why there is nothing. The call is of
// the file, device, case, variant, routing and contents that were judged: of the first case that
// was timed, or else of the first that is right, or was asked for. The candidate runs once more,
// not sealed in, because the profiler has to get into its process; at most `patience_s`.
std::string profile_of(const Question& question, const Verdict& verdict, double patience_s);

// The words behind `ncu` for that.
std::vector<std::string> profiler_words(const Question& question, const Verdict& verdict,
                                        const CaseVerdict& row);

}  // namespace fk
