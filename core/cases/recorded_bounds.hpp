// SPDX-License-Identifier: Apache-2.0
// Bounds of recorded whole numbers. The folder of a recording is untrusted, and kernels use its
// numbers as indices. A number which the contract's generator cannot make could let the oracle
// write anywhere. The candidate would then be blamed.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// Error at the case and the field if recorded contents are out of bounds, or if the bounds are
// unknown.
void check_bounds(const ResolvedCase& resolved, const std::string& where);

}  // namespace fk
