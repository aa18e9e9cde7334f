// SPDX-License-Identifier: Apache-2.0
// Conversion between elements of views and double: exact when loaded, rounded once when stored (to
// nearest, ties to even). Offsets count elements; the last axis of every view is dense.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "fk/cpp/plugin.hpp"

namespace fk::reference {

// Storage types of elements, for overloads of value() and put().
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

inline double value(double x) { return x; }
inline double value(float x) { return static_cast<double>(x); }
inline double value(Bf16 x) {
  return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16));
}
inline double value(F16 x) {
  // The same fields in a double, where the exponent's bias is larger by 1008.
  // A double with the same fields. Its exponent bias is larger by 1008, which the product corrects.
  const uint64_t wide = static_cast<uint64_t>(x.bits & 0x7fff) << 42;
  const uint64_t sign = static_cast<uint64_t>(x.bits & 0x8000) << 48;
  if ((x.bits & 0x7c00) == 0x7c00)
    return std::bit_cast<double>(wide | sign | uint64_t{0x7ff} << 52);  // infinity, NaN
  return std::bit_cast<double>(wide | sign) * 0x1p1008;
}

// An element type for weights and their inputs. There is no put() for it.
struct F8e4m3 {
  uint8_t bits;
};
// The value of each of the 256 codes; exponent bias 7, 3 bits of mantissa.
inline const std::array<double, 256> kF8e4m3 = [] {
  std::array<double, 256> all{};
  for (int bits = 0; bits < 256; ++bits) {
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    const double magnitude = (bits & 0x7f) == 0x7f ? std::numeric_limits<double>::quiet_NaN()
                             : exponent == 0       ? std::ldexp(mantissa, -9)
                                                   : std::ldexp(8 + mantissa, exponent - 10);
    all[static_cast<size_t>(bits)] = bits & 0x80 ? -magnitude : magnitude;
  }
  return all;
}();
inline double value(F8e4m3 x) { return kF8e4m3[x.bits]; }

// v rounded to `digits` significant bits, and to a multiple of 2^lowest. Values from 2^128 on stay
// as they are, so that they become infinity later.
inline double rounded(double v, int digits, int lowest) {
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(v) >> 52 & 2047) - 1023;
  if (exponent > 127) return v;
  // Adding a number this large rounds the bits below 2^step away.
  const int step = std::max(exponent + 1 - digits, lowest);
  const double large = 1.5 * std::bit_cast<double>(static_cast<uint64_t>(step + 52 + 1023) << 52);
  return std::copysign((v + large) - large, v);
}

// Rounds and stores one element.
inline void put(float& to, double v) { to = static_cast<float>(v); }
inline void put(Bf16& to, double v) {
  const auto wide = std::bit_cast<uint32_t>(static_cast<float>(rounded(v, 8, -133)));
  to.bits = static_cast<uint16_t>(wide >> 16 | (std::isnan(v) ? 0x40u : 0u));
}
inline void put(F16& to, double v) {
  const float exact = static_cast<float>(rounded(v, 11, -24));
  const float magnitude = std::fabs(exact);
  uint32_t bits;
  if (std::isnan(exact))
    bits = 0x7e00;
  else if (magnitude >= 65536)
    bits = 0x7c00;
  else if (magnitude < 0x1p-14f)
    bits = static_cast<uint32_t>(magnitude * 0x1p24f);
  else
    bits = (std::bit_cast<uint32_t>(magnitude) >> 13) - (112u << 10);
  to.bits = static_cast<uint16_t>(bits | (std::signbit(exact) ? 0x8000u : 0u));
}

// Calls body with a null pointer whose type is the element type of the view. Throws `unsupported`
// for other types than these three.
template <class View, class Body>
auto with_type(const View* view, Body body) {
  switch (FK_DTYPE(view)) {
    case FK_F32:
      return body(static_cast<const float*>(nullptr));
    case FK_BF16:
      return body(static_cast<const Bf16*>(nullptr));
    case FK_F16:
      return body(static_cast<const F16*>(nullptr));
  }
  throw unsupported{"the element type is not f32, bf16 or f16"};
}

// As with_type(), for weights: they may be f8e4m3, too.
template <class Body>
auto with_weight_type(const fk_in* view, Body body) {
  if (FK_DTYPE(view) == FK_F8E4M3) return body(static_cast<const F8e4m3*>(nullptr));
  return with_type(view, body);
}

// Refuses element types other than f32, bf16 and f16. Null views are absent fields.
template <class... Views>
void need_floats(const Views*... views) {
  const auto check = [](const auto* view) {
    if (view) with_type(view, [](auto) {});
  };
  (check(views), ...);
}

// Offset, in elements, of the entry at the given indices of the leading axes.
template <class View, class... Index>
int64_t offset(const View* view, Index... index) {
  const int64_t at[] = {static_cast<int64_t>(index)...};
  int64_t sum = 0;
  for (size_t i = 0; i < sizeof...(index); ++i) sum += at[i] * view->strides[i];
  return sum;
}

// to[i] = element from + i of the view, for `count` elements.
template <class View>
void load(const View* view, int64_t from, int64_t count, double* to) {
  with_type(view, [&](auto type) {
    const auto* x = static_cast<decltype(type)>(view->data) + from;
    for (int64_t i = 0; i < count; ++i) to[i] = value(x[i]);
  });
}
// The inverse of load(): elements [at, at + count) of the view become from[i], rounded.
inline void store(const fk_out* view, int64_t at, int64_t count, const double* from) {
  with_type(view, [&](auto type) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(type)>>;
    T* out = static_cast<T*>(view->data) + at;
    for (int64_t i = 0; i < count; ++i) put(out[i], from[i]);
  });
}
// to[i] += factor * element from + i of the view.
template <class View>
void add_scaled(const View* view, int64_t from, int64_t count, double factor, double* to) {
  with_type(view, [&](auto type) {
    const auto* x = static_cast<decltype(type)>(view->data) + from;
    for (int64_t i = 0; i < count; ++i) to[i] += factor * value(x[i]);
  });
}

// Sum of products. It has eight partial sums, so that the compiler can use vectors. Their order
// depends on `count` alone.
template <class T>
double dot(const T* a, const double* b, int64_t count) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int j = 0; j < 8; ++j) sums[j] += value(a[i + j]) * b[i + j];
  for (; i < count; ++i) sums[0] += value(a[i]) * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}
template <class View>
double dot_view(const View* view, int64_t from, const double* b, int64_t count) {
  return with_weight_type(view, [&](auto type) {
    return dot(static_cast<decltype(type)>(view->data) + from, b, count);
  });
}

// Element `at` of a contiguous view of integers, of type T.
template <class T>
int64_t index(const fk_in* view, int64_t at) {
  return static_cast<int64_t>(data<T>(view)[at]);
}

}  // namespace fk::reference
