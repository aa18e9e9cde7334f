// SPDX-License-Identifier: Apache-2.0
// What goes from rank to rank in a case with experts on several ranks: moe_combine's inputs are
// what moe_dispatch has left, which depends on the choices of all ranks.
#pragma once
#include <functional>
#include <vector>

#include "core/cases/inputs.hpp"

namespace fk {

// The sources of the rows that this case's rank receives, in moe_dispatch's order. `choices` gives
// the experts [T,K] that tokens have chosen in the case of another rank. Error for an op without
// ranks.
std::vector<int64_t> received_rows(const ResolvedCase& resolved,
                                   const std::function<Tensor(const ResolvedCase&)>& choices);

// Bytes that come over links to a rank, or leave it, by the contract's `cost.wire`, of the rank for
// which this is most; 0 where it has none. What depends on the routing asks for the experts [T,K]
// that the field of the case of another rank has.
using Choices = std::function<Tensor(const ResolvedCase& there, const std::string& field)>;
double wire_bytes(const ResolvedCase& resolved, const Choices& choices);

}  // namespace fk
