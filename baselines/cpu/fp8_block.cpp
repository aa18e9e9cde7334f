// SPDX-License-Identifier: Apache-2.0
// The kernels of fp8_block.hpp.
#include "fp8_block.hpp"

#include "fp8.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

namespace {

// Converts `count` values, times `scale`.
FK_INLINE void widen_part(const uint8_t* from, float scale, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, widen_fp8(from + i) * scale);
  if (i == count) return;
  uint8_t rest[kLanes] = {};
  for (int64_t j = i; j < count; ++j) rest[j - i] = from[j];
  store_n(to + i, widen_fp8(rest) * scale, count - i);
}

}  // namespace

void fp8_rows(const Fp8Matrix& m, int64_t begin, int64_t end, float* to, int64_t stride) {
  for (int64_t n = begin; n < end; ++n) {
    const float* scales = m.scales + n / m.block_n * m.across;
    float* row = to + (n - begin) * stride;
    for (int64_t b = 0; b < m.across; ++b) {
      const int64_t first = b * m.block_k, left = m.k - first;
      widen_part(m.weight + n * m.k + first, scales[b], left < m.block_k ? left : m.block_k,
                 row + first);
    }
  }
}

void fp8_input(const Fp8Row& a, float* to) {
  with_type(a.type, [&]<class T>() {
    const T* x = static_cast<const T*>(a.x);
    each_vector(a.k, [&](int64_t i, auto n) { store(to + i, load(x + i, n), n); });
  });
  for (int64_t first = 0; a.quantize && first < a.k; first += a.block_k) {
    const int64_t left = a.k - first, count = left < a.block_k ? left : a.block_k;
    Vf top{};
    each_vector(count, [&](int64_t i, auto n) {
      const Vf x = load(to + first + i, n);
      top = max(x < splat(0.f) ? -x : x, top);
    });
    const float unit = unit_of(max(top)), inverse = 1.f / unit;
    each_vector(count, [&](int64_t i, auto n) {
      store(to + first + i, round_fp8(load(to + first + i, n) * inverse) * unit, n);
    });
  }
}

}  // namespace fk::cpu::FK_CPU_LEVEL
