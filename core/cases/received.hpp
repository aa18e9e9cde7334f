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

}  // namespace fk
