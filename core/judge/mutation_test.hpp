// SPDX-License-Identifier: Apache-2.0
// Whether a case can tell right from wrong: mutants (null_candidates.hpp) tried on its
// comparison, in bounded time. The outcome depends on the case alone, not on who is judged.
#pragma once
#include <string>
#include <vector>

#include "core/cases/inputs.hpp"
#include "core/cases/selection.hpp"

namespace fk {

struct TriedMutant {
  std::string name;  // "zeros in out", "inputs in bf16"
  bool rejected = false;
  double worst = 0;      // its largest error as a share of what is allowed
  std::string why = {};  // it was not tried; empty: it was
};

// The reference's outputs for a call of the case with other axes; empty when it fails.
using AskVariant = std::function<CaseValues(const ResolvedCase& resolved, const Variant& variant,
                                            const CaseValues& values)>;

// Tries mutants on `inputs` (with weights) and the reference's answer to them, those that need no
// reference first, until `seconds` have passed; the one in hand is finished. Of a large output
// whose rows can be told apart, the first rows are tried as a case of their own.
std::vector<TriedMutant> try_mutants(const ResolvedCase& resolved, const Case& source,
                                     const Variant& variant, const CaseValues& inputs,
                                     const CaseValues& want, const AskVariant& ask, double seconds);

}  // namespace fk
