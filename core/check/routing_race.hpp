// SPDX-License-Identifier: Apache-2.0
// What a routing does to the time of one provider: calls with it and calls with uniform routing
// take turns, so that what else happens on the machine meets both.
#pragma once
#include <vector>

#include "core/check/bench.hpp"
#include "core/measure/race_clock.hpp"
#include "core/plugin/library.hpp"

namespace fk {

// The own time of `other` over that of `uniform` with its 99 % interval, on `calls` calls a sample;
// both resolve on the device, of whose memory each may use `memory`. Error when a call fails.
Ratio race_routings(const Provider& provider, const Case& uniform, const Case& other,
                    Device& device, int64_t memory, int calls, const Plugins& plugins,
                    const BenchOptions& options);

}  // namespace fk
