// SPDX-License-Identifier: Apache-2.0
// Data sent between ranks in a case with experts on several ranks. Inputs of moe_combine are the
// results of moe_dispatch, which depend on the choices of all ranks.
#pragma once
#include <functional>
#include <vector>

#include "core/cases/inputs.hpp"

namespace fk {

// The sources of the rows that this case's rank receives, in moe_dispatch's order. `choices`
// returns the experts [T,K] that tokens have chosen in another rank's case. Error for an op without
// ranks.
std::vector<int64_t> received_rows(const ResolvedCase& resolved,
                                   const std::function<Tensor(const ResolvedCase&)>& choices);

// Bytes that the busiest rank receives or sends over links, by the contract's `cost.wire`; 0
// without it. If they depend on routing, `Choices` returns the experts [T,K] in a field of another
// rank's case.
using Choices = std::function<Tensor(const ResolvedCase& there, const std::string& field)>;
double wire_bytes(const ResolvedCase& resolved, const Choices& choices);

}  // namespace fk
