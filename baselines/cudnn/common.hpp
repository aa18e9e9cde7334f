// SPDX-License-Identifier: Apache-2.0
// Shared by the ops of this provider: refusals, and the plan for the device. It has lengths and the
// starts of requests, which cuDNN wants in elements.
#pragma once
#include <algorithm>
#include <bit>
#include <vector>

#include "fk/cpp/plugin.hpp"
#include "sdpa.hpp"

namespace fkd {

inline constexpr int32_t kSm[] = {90};

inline void need(bool condition, const char* why) {
  if (!condition) throw fk::unsupported{why};
}
inline void need_16bit(const fk_in* view) {
  need(FK_DTYPE(view) == FK_BF16 || FK_DTYPE(view) == FK_F16, "float16 and bfloat16 only");
}
inline void need_layout(const fk_in* view) {
  need(fk_alignment(view) == FK_ALIGNMENT, "rows must start at multiples of 16 bytes");
  need(view->strides[view->ndim - 1] == 1, "the last axis must be dense");
}
inline void need_offsets(const fk_in* view) {
  need(view->shape[0] * view->strides[0] < int64_t{1} << 31, "offsets must fit 32 bits");
}
// A graph serves all steps with the same number of requests and at most as many tokens.
inline int64_t rounded(int64_t length) {
  return int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(length, 1))));
}

// Lengths from starts, and starts times a stride. need_offsets() keeps these within 32 bits.
inline int32_t* write_lengths(int32_t* to, const int32_t* starts, int64_t requests) {
  for (int64_t r = 0; r < requests; ++r) *to++ = starts[r + 1] - starts[r];
  return to;
}
inline int32_t* write_starts(int32_t* to, const int32_t* starts, int64_t requests, int64_t stride) {
  for (int64_t r = 0; r <= requests; ++r) *to++ = int32_t(starts[r] * stride);
  return to;
}

}  // namespace fkd
