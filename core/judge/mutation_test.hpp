// SPDX-License-Identifier: Apache-2.0
// Tests that a case tells right from wrong: tries mutants (mutants.hpp) on its comparison, in
// bounded time. The outcome depends on the case alone, not on the candidate.
#pragma once
#include <string>
#include <vector>

#include "core/cases/inputs.hpp"
#include "core/cases/selection.hpp"
#include "core/judge/verdict/verdict.hpp"

namespace fk {

// Returns the reference's outputs for a call of the case with other axes; empty when it fails.
using AskVariant = std::function<CaseValues(const ResolvedCase& resolved, const Variant& variant,
                                            const CaseValues& values)>;

// Tries mutants on `inputs` (with weights) and the reference's answer `want`, for about `seconds`;
// the current mutant is finished. Mutants without need of the reference come first. If a large
// output has separable rows, its first rows are tried as a case of their own.
std::vector<MutantRow> try_mutants(const ResolvedCase& resolved, const Case& source,
                                   const Variant& variant, const CaseValues& inputs,
                                   const CaseValues& want, const AskVariant& ask, double seconds);

}  // namespace fk
