// SPDX-License-Identifier: Apache-2.0
// RMSNorm of rows that lie apart, in place: heads of q and k, latents within a projection's rows.
#pragma once
#include "level.hpp"

namespace fk::cpu {
struct HeadNorm {
  void* x;
  const void* weight;
  int64_t token_stride, head_stride, heads, width;  // in elements
  float eps;
  int type, weight_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(head_norm, const HeadNorm&, int64_t begin, int64_t end)
