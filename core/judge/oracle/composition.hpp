// SPDX-License-Identifier: Apache-2.0
// A device's oracle for ops above L1 that its plugin lacks: the host's decomposition of the op.
// Each part runs in that plugin's L1 kernels, with float32 between the parts. The parts sum in
// double, so each part loses only one rounding of its answer. `reference` stays in double and
// rounds once.
#pragma once
#include <string>

#include "core/cases/inputs.hpp"
#include "core/device/device.hpp"
#include "core/plugin/library.hpp"

namespace fk {

// Stands in a list of providers for composed_outputs() with `cuda_reference` on a CUDA device. It
// has a plugin and a device kind; its functions cannot be called.
const Provider& composed_oracle();

// Returns the call's outputs, dense, in float32 where the contract allows it. `plugin` needs all L1
// ops of the decomposition for this device kind. All memory is its own, and freed on return. Not
// for contracts with a communicator. Error when there is no decomposition, a part refuses, or
// memory is short. Error also when a part would replace another float by one of less than 32 bits.
CaseValues composed_outputs(const Plugins& plugins, const std::string& plugin,
                            const ResolvedCase& resolved, const Case& source,
                            const Variant& variant, const CaseValues& values, Device& device);

// As composed_outputs(), in the call's own dtypes, as in a model: each part rounds its outputs.
// This is no oracle, but a lower bound on the accuracy of an honest implementation.
CaseValues chained_outputs(const Plugins& plugins, const std::string& plugin,
                           const ResolvedCase& call, const CaseValues& values, Device& device);

// Empty, or the reason why composed_outputs() cannot begin, at any size. Needs no contents, memory
// or work.
std::string why_not_composed(const Plugins& plugins, const std::string& plugin,
                             const ResolvedCase& resolved, const Case& source,
                             const Variant& variant, int32_t device_type);

}  // namespace fk
