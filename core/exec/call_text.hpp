// SPDX-License-Identifier: Apache-2.0
// A call of an op in words that a case of its contract is made from: constructor values as text,
// axes from shapes, dtypes, which optional fields are there.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/contract/contract.hpp"
#include "core/plugin/instance.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

// The views of one tensor field of a frame: none when it is absent, several of a list.
std::vector<const fk_in*> views_of(const Slot& slot, const std::vector<fk_slot>& frame);
bool is_dense(const fk_in& view);  // row-major without gaps
DType dtype_of(const fk_in& view);
Shape shape_of(const fk_in& view);

// {op, revision, init, scalars, axes, listed, with, dtypes, strided}; of `init` every slot, of
// `scalars` the bounds of forward. Axes that only absent fields have are 0.
Json call_text(const Contract& contract, const Frames& frames);

}  // namespace fk
