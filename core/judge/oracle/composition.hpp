// SPDX-License-Identifier: Apache-2.0
// The oracle of a device for ops above L1 that its plugin does not have: the host's expansion of
// the op, every part of it by that plugin's L1 kernels, with float32 between them. The parts sum up
// in double, so what is lost is what `reference`, which stays in double, loses when it rounds its
// answer, once for each part.
#pragma once
#include <string>

#include "core/cases/inputs.hpp"
#include "core/device/device.hpp"
#include "core/plugin/library.hpp"

namespace fk {

// Stands among providers for what composed_outputs() does with `cuda_reference` on a CUDA device:
// it has a plugin and a kind of device, and nothing of it can be called.
const Provider& composed_oracle();

// What the call writes, dense, in float32 where the contract allows it. `plugin` has to have all L1
// ops of the expansion for this kind of device. Everything lies in memory of its own, which is
// given back. Not for contracts with a communicator. Error when there is no expansion, a part is
// not taken, memory is short, or a part would write a float of less than 32 bits for another one.
CaseValues composed_outputs(const Plugins& plugins, const std::string& plugin,
                            const ResolvedCase& resolved, const Case& source,
                            const Variant& variant, const CaseValues& values, Device& device);

// The same in the call's own dtypes, as a model runs it: each part rounds what it hands on. No
// oracle, but what an honest implementation of the op is at least as good as.
CaseValues chained_outputs(const Plugins& plugins, const std::string& plugin,
                           const ResolvedCase& call, const CaseValues& values, Device& device);

// Empty, or why composed_outputs() would not begin: without contents, memory or work, at any size.
std::string why_not_composed(const Plugins& plugins, const std::string& plugin,
                             const ResolvedCase& resolved, const Case& source,
                             const Variant& variant, int32_t device_type);

}  // namespace fk
