// SPDX-License-Identifier: Apache-2.0
// Chooses the provider of a node. In order: an explicit pin, the candidates, the ranked baselines
// (which may depend on a call's sizes), the host's decomposition, an Error with all refusals.
// Nothing is substituted silently.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/exec/ranking.hpp"
#include "core/plugin/instance.hpp"

namespace fk {

struct ProviderPolicy {
  std::map<std::string, std::string> pins;  // op -> provider; it must take the op
  std::vector<std::string> candidates;      // plugin names, asked in order; empty: baselines only
  std::vector<std::string> baselines;       // best first
  Ranking ranking;                          // its providers go before the other baselines
  // The oracle's providers. They are asked after the decomposition, so that a slow whole layer
  // never replaces its fast parts. With `whole` they are asked before it.
  std::vector<std::string> oracles = {"reference", "cuda_reference", "opencl_reference"};
  bool whole = false;
  int32_t device_type = FK_CPU;  // set by the session; providers of other types are not asked
};

// The provider for calls of some sizes.
struct SizeChoice {
  std::vector<SizeBound> where;
  const Provider* provider;
  fk_need need;
};
struct Chosen {
  const Provider* provider = nullptr;  // null: use the decomposition, or no provider takes it
  fk_need need{};
  std::vector<std::string> refusals;  // "provider: why"
  std::vector<SizeChoice> sizes;      // the first that holds for a call, else `provider`
};
// `meta`: the call's frames, with shapes at the limits and without data. `expandable`: the op has
// a decomposition. Throws Error when a pin refuses.
Chosen choose(const ProviderPolicy& policy, const Plugins& plugins, const Contract& contract,
              const Frames& meta, bool expandable, const std::string& path);

}  // namespace fk
