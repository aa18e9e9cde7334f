// SPDX-License-Identifier: Apache-2.0
// Which provider runs a node: an explicit pin, else a candidate, else the ranked baselines, which
// may be others for calls of other sizes, else the host's expansion, else an error that lists who
// refused and why. Nothing is substituted silently.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/exec/ranking.hpp"
#include "core/plugin/instance.hpp"

namespace fk {

struct ProviderPolicy {
  std::map<std::string, std::string> pins;  // op -> provider; it must take the op
  std::string candidate;                    // its plugin name; empty: baselines only
  std::vector<std::string> baselines;       // best first
  Ranking ranking;                          // those that go before the other baselines
  // The oracle's providers: asked only after the expansion, so that a slow whole layer never
  // replaces fast parts of it. With `whole` they are asked before it.
  std::vector<std::string> oracles = {"reference", "cuda_reference"};
  bool whole = false;
  int32_t device_type = FK_CPU;  // of the session, which sets it; others are not asked
};

// Whom calls of some sizes go to instead.
struct SizeChoice {
  std::vector<SizeBound> where;
  const Provider* provider;
  fk_need need;
};
struct Chosen {
  const Provider* provider = nullptr;  // null: use the expansion, or nobody takes it
  fk_need need{};
  std::vector<std::string> refusals;  // "provider: why"
  std::vector<SizeChoice> sizes;      // the first that holds of a call, else `provider`
};
// `expandable`: the op has an expansion. Throws Error when a pin cannot be kept.
Chosen choose(const ProviderPolicy& policy, const Plugins& plugins, const Contract& contract,
              const Frames& meta, bool expandable, const std::string& path);

}  // namespace fk
