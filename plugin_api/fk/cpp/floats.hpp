// SPDX-License-Identifier: Apache-2.0
// Conversion between float and the three dtypes of a contract's `float`: float32, bfloat16 and
// float16. CPU ops compute in float and convert their inputs and outputs here.
//
//   if (!fk::is_float(max.x)) throw fk::unsupported{"x: f32, bf16 and f16 only"};
//   fk::load(args.x, t * width, width, row);     // any of the three -> float
//   fk::store(args.out, t * width, width, row);  // rounded to nearest, ties to even
//
// load() converts elements [at, at + count) of the view's data into `to` [count]. store() is the
// inverse. Both treat the data as contiguous, so callers compute `at` from the strides. Neither
// checks bounds, and every dtype but bf16 and f16 counts as f32. [any thread]
#pragma once
#include <cstring>

#include "plugin.hpp"

namespace fk {

inline float from_bf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

inline uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);  // stays a NaN
  // The addend rounds to nearest: just below half a step, plus the lowest kept bit for ties to
  // even.
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float from_f16(uint16_t bits) {
  // Shifted into float's fields, the bits mean the value times 2^-112. The multiplication corrects
  // that, also for subnormals.
  uint32_t wide = uint32_t{bits & 0x7fffu} << 13;
  float value;
  std::memcpy(&value, &wide, 4);
  value *= 0x1p112f;
  std::memcpy(&wide, &value, 4);
  if ((bits & 0x7c00) == 0x7c00) wide |= 0x7f800000;  // infinity or NaN
  wide |= uint32_t{bits & 0x8000u} << 16;
  std::memcpy(&value, &wide, 4);
  return value;
}

inline uint16_t to_f16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);   // NaN
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // >= 65520: infinity
  if (magnitude < 0x38800000) {
    // Below 2^-14 the result is subnormal. The sum with 0.5 holds its 10 bits, rounded, in its low
    // bits.
    float small;
    std::memcpy(&small, &magnitude, 4);
    small += 0.5f;
    std::memcpy(&bits, &small, 4);
    return static_cast<uint16_t>(sign | (bits - 0x3f000000));
  }
  // 0x38000000 corrects the exponent: float's bias is 127, float16's is 15. Rounding as in
  // to_bf16().
  const uint32_t rounded = magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

inline bool is_float(const fk_in* view) {
  const int type = FK_DTYPE(view);
  return type == FK_F32 || type == FK_BF16 || type == FK_F16;
}
inline bool is_float(const fk_out* view) { return is_float(fk_as_in(view)); }
// True also if the field is absent.
inline bool is_float(fk_opt_in view) { return !view.or_null || is_float(view.or_null); }
inline bool is_float(fk_opt_out view) { return !view.or_null || is_float(view.or_null); }

inline void load(const fk_in* view, int64_t at, int64_t count, float* to) {
  const auto* half = static_cast<const uint16_t*>(view->data) + at;
  switch (FK_DTYPE(view)) {
    case FK_BF16:
      for (int64_t i = 0; i < count; ++i) to[i] = from_bf16(half[i]);
      return;
    case FK_F16:
      for (int64_t i = 0; i < count; ++i) to[i] = from_f16(half[i]);
      return;
    default:
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<const float*>(view->data)[at + i];
  }
}
inline void load(const fk_out* view, int64_t at, int64_t count, float* to) {
  load(fk_as_in(view), at, count, to);
}

inline void store(const fk_out* view, int64_t at, int64_t count, const float* from) {
  auto* half = static_cast<uint16_t*>(view->data) + at;
  switch (FK_DTYPE(view)) {
    case FK_BF16:
      for (int64_t i = 0; i < count; ++i) half[i] = to_bf16(from[i]);
      return;
    case FK_F16:
      for (int64_t i = 0; i < count; ++i) half[i] = to_f16(from[i]);
      return;
    default:
      for (int64_t i = 0; i < count; ++i) static_cast<float*>(view->data)[at + i] = from[i];
  }
}

}  // namespace fk
