// SPDX-License-Identifier: Apache-2.0
// The first rows of a case as a case of their own, with the same contents: what a claim of batch
// invariance is tested with.
#pragma once
#include <optional>

#include "core/cases/inputs.hpp"

namespace fk {

struct Slice {
  ResolvedCase resolved;
  Variant variant;  // with its axes
  CaseValues values;
  std::vector<std::string> outputs;  // float outputs whose first rows can be compared
};

// Keeps `keep` requests where the case has requests (a field of cu()), else `keep` rows of T, M or
// B. Empty when the case has no more than that, or when its rows cannot be told apart (routing).
std::optional<Slice> first_rows(const ResolvedCase& resolved, const Case& source,
                                const Variant& variant, const CaseValues& values, int64_t keep);

}  // namespace fk
