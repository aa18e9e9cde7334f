// SPDX-License-Identifier: Apache-2.0
// A projection whose weight may be f8e4m3 with scales: the kernel follows from what the layer was
// given. The layers' own fields say how blocks are cut and whether inputs are rounded.
#pragma once
#include "core/graph/builder.hpp"

namespace fk::blocks {

// x @ weight^T by linear, or by linear_fp8_block where there are scales; `out` may be absent.
Value project(Builder& b, const Region& r, const char* name, int64_t in, int64_t out_features,
              Value weight, Value scale_inv, Value x, Value out = {});

// Copies init values and tensors to the call of a part that has the same names.
void pass_integers(Args& args, const Region& r, std::initializer_list<const char*> names);
void pass_tensors(Args& args, const Region& r, std::initializer_list<const char*> names);

}  // namespace fk::blocks
