// SPDX-License-Identifier: Apache-2.0
// All outputs of one call beside the reference's: counts before what they count, choices that are
// as right as the reference's forgiven, every output under its error model.
#pragma once
#include <string>

#include "core/cases/selection.hpp"

namespace fk {

struct Comparison {
  bool ok = true;
  double worst = 0;  // largest error as a share of what is allowed
  std::string text;  // when not ok: the first wrong output, where, how far, the pattern; when ok:
                     // of which output only a sample was compared
};

// How many elements of an output are compared: in a quick look, and ever. Of a larger output it is
// one row in so many, evenly.
constexpr int64_t kQuickElements = int64_t{1} << 22, kMostElements = int64_t{1} << 26;

// `got` and `want` hold what the call writes, `values` what it read. `ask` is asked where another
// choice than the reference's may be as right; it may be null, then none is.
Comparison compare_outputs(const ResolvedCase& resolved, const CaseValues& values,
                           const CaseValues& got, const CaseValues& want, int64_t elements_max,
                           const AskReference& ask);

}  // namespace fk
