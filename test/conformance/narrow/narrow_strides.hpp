// SPDX-License-Identifier: Apache-2.0
// A view whose strides are kept in 32 bits, as where a kernel computes offsets in `int`.
#pragma once
#include <cstdint>
#include <vector>

#include "fk/tensor.h"

namespace {

template <class View>
class NarrowStrides {
 public:
  explicit NarrowStrides(const View* from) : view_(*from) {
    for (int32_t d = 0; d < from->ndim; ++d)
      strides_.push_back(static_cast<int32_t>(from->strides[d]));
    view_.strides = strides_.data();
  }
  NarrowStrides(const NarrowStrides&) = delete;  // the view points to its strides
  const View* view() const { return &view_; }

 private:
  View view_;
  std::vector<int64_t> strides_;
};

}  // namespace
