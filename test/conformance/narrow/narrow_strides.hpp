// SPDX-License-Identifier: Apache-2.0
// A view whose strides are kept in 32 bits, as where a kernel computes offsets in `int`.
#pragma once
#include <cstdint>
#include <vector>

#include "fk/plugin.h"

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

// A reference of an op with k_cache and v_cache, which gets them with such strides.
template <class Reference>
struct NarrowCaches : Reference {
  using Reference::Reference;
  void forward(const typename Reference::op::forward& args, const fk_ctx& ctx) {
    const NarrowStrides k(args.k_cache), v(args.v_cache);
    typename Reference::op::forward own = args;
    own.k_cache = k.view();
    own.v_cache = v.view();
    Reference::forward(own, ctx);
  }
};

}  // namespace
