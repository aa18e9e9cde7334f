// SPDX-License-Identifier: Apache-2.0
// Memory that a profile would need, in words.
#include "core/base/text.hpp"
#include "core/scenario/memory_budget.hpp"
#include "core/scenario/run.hpp"

namespace fk {

std::string full_profile_needs(const Scenario& full, const Catalog& catalog) {
  const auto model = full.make();
  const int64_t states = states_bytes(*model, catalog, full.limits);
  return human_bytes(weights_bytes(*model, catalog, full.limits)) + " for weights" +
         (states > 0 ? " and " + human_bytes(states) + " for caches" : "") + " in " +
         std::string(name(full.limits.dtype));
}

}  // namespace fk
