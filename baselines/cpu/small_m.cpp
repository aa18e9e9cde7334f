// SPDX-License-Identifier: Apache-2.0
// The kernels of small_m.hpp. A block of rows of the weight is multiplied with all rows of x; the
// sums stay in registers.
#include "small_m.hpp"

#include "simd.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

// Stores or loads element n of a row.
FK_INLINE void put(void* row, int type, int64_t n, float value) {
  with_type(type, [&]<class T>() { store_n(static_cast<T*>(row) + n, splat(value), 1); });
}
FK_INLINE float get(const void* row, int type, int64_t n) {
  float value = 0;
  with_type(type, [&]<class T>() { value = to_float(static_cast<const T*>(row)[n]); });
  return value;
}

// Distance of the prefetch of the weight, in bytes. Past a row's end it reaches the next row.
inline constexpr int64_t kPrefetch = 1024;

// Multiplies M rows of x with R rows of the weight, from row n on.
template <class W, int M, int R>
FK_INLINE void block(const SmallM& a, int64_t n) {
  const W* w = static_cast<const W*>(a.weight) + n * a.k;
  Vf acc[R][M] = {};
  const auto step = [&](int64_t i, auto lanes) {
    Vf v[R];
    for (int r = 0; r < R; ++r) v[r] = load(w + r * a.k + i, lanes);
    for (int m = 0; m < M; ++m) {
      const Vf x = load(a.x[m] + i, lanes);
      for (int r = 0; r < R; ++r) acc[r][m] += v[r] * x;
    }
  };
  int64_t i = 0;
  for (; i + kLanes <= a.k; i += kLanes) {
    for (int r = 0; r < R; ++r) __builtin_prefetch(w + r * a.k + i + kPrefetch / sizeof(W));
    step(i, Full{});
  }
  if (i < a.k) step(i, a.k - i);
  for (int r = 0; r < R; ++r) {
    const float bias = a.bias ? get(a.bias, a.bias_type, n + r) : 0.f;
    for (int m = 0; m < M; ++m) put(a.out[m], a.out_type, n + r, sum(acc[r][m]) + bias);
  }
}

// Outputs [begin, end), R at a time.
template <class W, int M, int R>
void columns(const SmallM& a, int64_t begin, int64_t end) {
  int64_t n = begin;
  for (; n + R <= end; n += R) block<W, M, R>(a, n);
  for (; n < end; ++n) block<W, M, 1>(a, n);
}

// Rows of the weight per block: as many as keep the sums in registers. AVX-512 takes four even if a
// few sums spill, because memory needs four streams to be busy. (M = 8: 21.8 GB/s with 4 rows, 15.9
// with 3.)
inline constexpr int kRegisters = kLanes == 16 ? 32 : 12;  // registers for sums
template <int M>
inline constexpr int kRows = 4 * M <= kRegisters   ? 4
                             : 2 * M <= kRegisters ? 2
                                                   : 1;

void small_m(const SmallM& a, int64_t begin, int64_t end) {
  with_type(a.weight_type, [&]<class W>() {
    switch (a.m) {
      case 1:
        return columns<W, 1, kRows<1>>(a, begin, end);
      case 2:
        return columns<W, 2, kRows<2>>(a, begin, end);
      case 3:
        return columns<W, 3, kRows<3>>(a, begin, end);
      case 4:
        return columns<W, 4, kRows<4>>(a, begin, end);
      case 5:
        return columns<W, 5, kRows<5>>(a, begin, end);
      case 6:
        return columns<W, 6, kRows<6>>(a, begin, end);
      case 7:
        return columns<W, 7, kRows<7>>(a, begin, end);
      default:
        return columns<W, 8, kRows<8>>(a, begin, end);
    }
  });
}

void convert(const Convert& a, int64_t count) {
  with_type(a.from_type, [&]<class From>() {
    with_type(a.to_type, [&]<class To>() {
      const From* from = static_cast<const From*>(a.from);
      To* to = static_cast<To*>(a.to);
      if (a.bias == nullptr) {
        each_vector(count, [&](int64_t i, auto n) { store(to + i, load(from + i, n), n); });
        return;
      }
      with_type(a.bias_type, [&]<class B>() {
        const B* bias = static_cast<const B*>(a.bias);
        each_vector(count, [&](int64_t i, auto n) {
          store(to + i, load(from + i, n) + load(bias + i, n), n);
        });
      });
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL
