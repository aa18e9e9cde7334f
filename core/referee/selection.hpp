// SPDX-License-Identifier: Apache-2.0
// Ops that choose (top-k, sampling): when is another choice as right as the reference's?
#pragma once
#include <cstdint>
#include <vector>

#include "core/referee/inputs.hpp"

namespace fk {

// 1 for every element of an integer output where `got` and `want` name different columns of the
// scores whose values are so close that float32 arithmetic cannot order them. Equal scores do not
// count: the contract orders those by index.
std::vector<uint8_t> equally_right(const ResolvedCase& resolved, const CaseField& chosen,
                                   const Tensor& got, const Tensor& want,
                                   const CaseValues& values);

}  // namespace fk
