// SPDX-License-Identifier: Apache-2.0
// Recorded whole numbers are what kernels index with, and a folder comes from elsewhere: numbers
// that the contract's generator could not have made would have the oracle write anywhere, and a
// candidate blamed for it.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// Error at the case and the field where one of its recorded contents is out of bounds, or where
// nothing tells the bounds.
void check_bounds(const ResolvedCase& resolved, const std::string& where);

}  // namespace fk
