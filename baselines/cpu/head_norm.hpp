// SPDX-License-Identifier: Apache-2.0
// RMSNorm in place of rows that are not adjacent: the heads of q and k, or the latents within a
// projection's rows. The kernel is in norm/qk_rms_norm.cpp.
#pragma once
#include "level.hpp"

namespace fk::cpu {
// The row of a token's head begins at x + token * token_stride + head * head_stride.
struct HeadNorm {
  void* x;
  const void* weight;
  int64_t token_stride, head_stride, heads, width;  // in elements
  float eps;
  int type, weight_type;
};
}  // namespace fk::cpu
// Tokens [begin, end), all heads.
FK_CPU_KERNEL(head_norm, const HeadNorm&, int64_t begin, int64_t end)
