// SPDX-License-Identifier: Apache-2.0
// The effect of a routing on one provider's time. Calls with it and calls with uniform routing take
// turns, so that disturbances of the machine meet both.
#pragma once
#include <vector>

#include "core/check/bench.hpp"
#include "core/measure/race_clock.hpp"
#include "core/plugin/library.hpp"

namespace fk {

// Time with `other` over time with `uniform`, with a 99 % interval, for `calls` calls per sample.
// Both cases run on `device`; each may use `memory` bytes of it. Error when a call fails.
Ratio race_routings(const Provider& provider, const Case& uniform, const Case& other,
                    Device& device, int64_t memory, int calls, const Plugins& plugins,
                    const BenchOptions& options);

}  // namespace fk
