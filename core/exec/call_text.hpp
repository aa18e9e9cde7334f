// SPDX-License-Identifier: Apache-2.0
// A call of an op as data for a case of its contract: constructor values, axes from shapes, dtypes,
// and the present optional fields.
#pragma once
#include <string>
#include <vector>

#include "core/contract/contract.hpp"
#include "core/exec/recording.hpp"
#include "core/plugin/instance.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

// The views of one tensor field of a frame: none when it is absent, several for a list.
std::vector<const fk_in*> views_of(const Slot& slot, const std::vector<fk_slot>& frame);
bool is_dense(const fk_in& view);  // row-major without gaps
DType dtype_of(const fk_in& view);
Shape shape_of(const fk_in& view);

RecordedCall recorded_call(const Contract& contract, const Frames& frames);

}  // namespace fk
