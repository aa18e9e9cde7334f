// SPDX-License-Identifier: Apache-2.0
// A projection whose weight may be f8e4m3 with scales. The layer's weights choose the kernel. The
// layer's own fields say how blocks are cut and whether inputs are rounded.
#pragma once
#include "core/graph/builder.hpp"

namespace fk::blocks {

// x by the region's weight `slot`: linear, or linear_fp8_block where there is `slot`_scale_inv.
// `out` may be absent.
inline Value project(Builder& b, const Region& r, const std::string& path, const std::string& slot,
                     Value x, Value out = {}) {
  Args args = {{"weight", r[slot]}, {"x", x}, {"out", out}};
  const Value scales = r[slot + "_scale_inv"];
  if (!scales) return r.call(b, "linear", path, std::move(args));
  args.emplace_back("weight_scale_inv", scales);
  return r.call(b, "linear_fp8_block", path, std::move(args));
}

}  // namespace fk::blocks
