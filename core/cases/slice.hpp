// SPDX-License-Identifier: Apache-2.0
// The first rows of a case as a case of its own, with the same contents, to test the claim of batch
// invariance.
#pragma once
#include <optional>

#include "core/cases/inputs.hpp"

namespace fk {

struct Slice {
  ResolvedCase resolved;
  Variant variant;  // with the axes of the slice
  CaseValues values;
  std::vector<std::string> outputs;  // float outputs whose first rows can be compared
};

// Keeps `keep` requests if the case has requests (a field of cu()), else `keep` rows of T, M or B.
// Empty when the case has no more rows, or its rows depend on each other (routing).
std::optional<Slice> first_rows(const ResolvedCase& resolved, const Case& source,
                                const Variant& variant, const CaseValues& values, int64_t keep);

}  // namespace fk
