// SPDX-License-Identifier: Apache-2.0
// The ops of a model at all levels: recorded calls, and the calls inside them.
#pragma once
#include <map>
#include <string>

#include "core/exec/model.hpp"

namespace fk {

// Calls of each op in one phase.
std::map<std::string, int> op_use(const Model& model, const Catalog& catalog,
                                  const std::string& phase, const Limits& limits);

}  // namespace fk
