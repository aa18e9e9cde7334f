// SPDX-License-Identifier: Apache-2.0
// Bounds of recorded whole numbers. Kernels use them as indices, and the folder is untrusted:
// numbers beyond the contract's generator would make the oracle write anywhere, and the candidate
// be blamed.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// Error at the case and the field if recorded contents are out of bounds, or if the bounds are
// unknown.
void check_bounds(const ResolvedCase& resolved, const std::string& where);

}  // namespace fk
