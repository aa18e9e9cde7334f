// SPDX-License-Identifier: Apache-2.0
#include "quantize.hpp"

#include "fp8.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

namespace {

// Codes of int8, to nearest even and saturated.
FK_INLINE Vu narrow_int8(Vf x) {
  const Vf inside = max(min(x, splat(127.f)), splat(-128.f));
  return bits_as<Vu>(inside + 12582912.f);  // 1.5 * 2^23: whole numbers are in the low bits
}

// Calls body(group, first, count) for the groups of a row.
template <class Body>
FK_INLINE void each_group(const QuantizeRows& a, Body body) {
  for (int64_t b = 0; b < a.across; ++b) {
    const int64_t first = b * a.group_columns, left = a.columns - first;
    body(b, first, left < a.group_columns ? left : a.group_columns);
  }
}

}  // namespace

void quantize_tops(const QuantizeRows& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    for (int64_t t = begin; t < end; ++t) {
      const T* x = static_cast<const T*>(a.x) + t * a.step;
      each_group(a, [&](int64_t b, int64_t first, int64_t count) {
        Vf top{};
        each_vector(count, [&](int64_t i, auto n) {
          const Vf v = load(x + first + i, n);
          top = max(bits_as<Vf>(bits_as<Vu>(v) & 0x7fffffffu), top);
        });
        a.tops[t * a.across + b] = max(top);
      });
    }
  });
}

void quantize_codes(const QuantizeRows& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    for (int64_t t = begin; t < end; ++t) {
      const T* x = static_cast<const T*>(a.x) + t * a.step;
      const float* inverses = a.inverses + t / a.group_rows * a.across;
      each_group(a, [&](int64_t b, int64_t first, int64_t count) {
        uint8_t* out = a.out + t * a.columns + first;
        const float inverse = inverses[b];
        if (a.whole)
          each_vector(count, [&](int64_t i, auto n) {
            store_bytes(out + i, narrow_int8(load(x + first + i, n) * inverse), n);
          });
        else
          each_vector(count, [&](int64_t i, auto n) {
            store_bytes(out + i, narrow_fp8(load(x + first + i, n) * inverse), n);
          });
      });
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL
