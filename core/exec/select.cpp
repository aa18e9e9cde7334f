// SPDX-License-Identifier: Apache-2.0
// Asks providers in the order of select.hpp, and keeps each refusal for the report.
#include "core/exec/select.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/device/device_type.hpp"

namespace fk {

namespace {

// Asks one plugin. If it takes the call, fills `chosen` and returns true.
bool ask(const ProviderPolicy& policy, const Plugins& plugins, const Contract& contract,
         const Frames& meta, const std::string& plugin, Chosen& chosen) {
  for (const Provider* provider : plugins.of(contract.op)) {
    if (provider->plugin != plugin) continue;
    if (provider->op->claims->device_type != policy.device_type) {
      chosen.refusals.push_back(plugin + ": it runs on " +
                                devices_of_type(provider->op->claims->device_type));
      continue;
    }
    const Support support = Instance::supports(*provider, meta);
    if (support.ok) {
      chosen.provider = provider;
      chosen.need = support.need;
      return true;
    }
    chosen.refusals.push_back(plugin + ": " + support.why);
  }
  return false;
}

}  // namespace

Chosen choose(const ProviderPolicy& policy, const Plugins& plugins, const Contract& contract,
              const Frames& meta, bool expandable, const std::string& path) {
  Chosen chosen;
  const std::string where = path + " (" + contract.op + ")";
  if (const auto pin = policy.pins.find(contract.op); pin != policy.pins.end()) {
    if (ask(policy, plugins, contract, meta, pin->second, chosen)) return chosen;
    // `expansion` is the earlier name.
    if ((pin->second == "decomposition" || pin->second == "expansion") && expandable) return chosen;
    std::string why = chosen.refusals.empty() ? "it has no such op" : chosen.refusals.back();
    for (const auto& r : plugins.refused())
      if (r.plugin == pin->second && r.op == contract.op) why = r.why;
    fail(where,
         "`providers` of the scenario or --provider names `" + pin->second +
             "`, which refuses the op: " + why,
         contains(plugins.plugin_names(), pin->second)
             ? ""
             : did_you_mean(pin->second, plugins.plugin_names()));
  }
  for (const auto& candidate : policy.candidates)
    if (ask(policy, plugins, contract, meta, candidate, chosen)) return chosen;
  // Asks the ranked baselines, then the others. False: none takes the call.
  const auto ask_baselines = [&](const std::vector<std::string>& best, Chosen& into) {
    std::vector<std::string> order;
    for (const auto* names : {&best, &policy.baselines})
      for (const auto& name : *names)
        if (contains(policy.baselines, name) && !contains(policy.oracles, name) &&
            !contains(order, name))
          order.push_back(name);
    return std::ranges::any_of(order, [&](const std::string& name) {
      return ask(policy, plugins, contract, meta, name, into);
    });
  };
  std::vector<std::string> otherwise;
  if (const auto by_size = policy.ranking.find(contract.op); by_size != policy.ranking.end()) {
    for (const RankedProviders& ranked : by_size->second) {
      Chosen here;
      if (ranked.where.empty())
        otherwise = ranked.providers;
      else if (ask_baselines(ranked.providers, here))
        chosen.sizes.push_back({ranked.where, here.provider, here.need});
    }
  }
  if (ask_baselines(otherwise, chosen)) return chosen;
  chosen.sizes.clear();  // the next provider takes calls of all sizes
  const auto ask_oracles = [&] {
    return std::any_of(policy.oracles.begin(), policy.oracles.end(), [&](const std::string& name) {
      return contains(policy.baselines, name) && ask(policy, plugins, contract, meta, name, chosen);
    });
  };
  if (policy.whole && ask_oracles()) return chosen;
  if (expandable) return chosen;
  if (!policy.whole && ask_oracles()) return chosen;
  fail(where, "no provider takes the op: " +
                  (chosen.refusals.empty() ? "none has this op" : join(chosen.refusals, "; ")));
}

}  // namespace fk
