// SPDX-License-Identifier: Apache-2.0
#include "core/check/routing_race.hpp"

#include "core/measure/sampler.hpp"

namespace fk {

Ratio race_routings(const Provider& provider, const Case& uniform, const Case& other,
                    Device& device, int64_t memory, int calls, const Plugins& plugins,
                    const BenchOptions& options) {
  const auto watch = device.stopwatch();
  const auto sets = [&](const Case& source) {
    const ResolvedCase resolved = resolve(*provider.contract, source, {});
    const CaseValues values = make_inputs(resolved, options.seed, options.threads);
    return BufferSets(device, resolved, values, memory);
  };
  const BufferSets even = sets(uniform), own = sets(other);
  ProviderSampler first(provider, device, *watch, even, plugins, options.threads, options.seed);
  ProviderSampler second(provider, device, *watch, own, plugins, options.threads, options.seed);
  for (ProviderSampler* sampler : {&first, &second}) sampler->set_calls(calls);
  const std::vector<Contender*> both = {&first, &second};
  RaceOptions race_options;
  race_options.seconds = 2 * options.seconds;
  // race() divides by the first contender's time.
  return race(both, race_options).ratio(0, 1);
}

}  // namespace fk
