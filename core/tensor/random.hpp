// SPDX-License-Identifier: Apache-2.0
//
// Random contents by position. Element i of a stream depends only on the seed and on i. It is lane
// i % 4 of Philox 4x32-10 with the counter i / 4 and the seed as key. So any rank can make any
// slice on any number of threads, with equal results. Multiplications and additions are not fused,
// so the values do not depend on the compiler or the instruction set either.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/tensor/dtype.hpp"

namespace fk {

/// Philox 4x32-10 of a 64-bit counter (upper half zero) under a 64-bit key.
std::array<uint32_t, 4> philox(uint64_t counter, uint64_t key);

/// A seed for a named part, from the seed of the whole; different names give unrelated streams.
/// Golden files contain the value, so it must not change.
uint64_t seed_of(std::string_view name, uint64_t seed);

/// All fill functions write elements [offset, offset + count) of the stream `seed` to `target`,
/// which holds `count` elements and needs no alignment. `threads` >= 1 is the number used for large
/// fills; it does not change the values.

/// Normal by Box-Muller in float32 (deviates within +-5.9 standard deviations), scaled in float32,
/// then rounded to dtype.
void fill_normal(void* target, DType dtype, int64_t count, uint64_t seed, uint64_t offset,
                 double mean, double stddev, int threads = 1);

/// Uniform with 24 random bits in [low, high), computed in double, then rounded to dtype, which may
/// round up to `high`.
void fill_uniform(void* target, DType dtype, int64_t count, uint64_t seed, uint64_t offset,
                  double low, double high, int threads = 1);

/// Whole numbers in [low, high), half-open, for any dtype. Error when the range is empty or wider
/// than 2^32.
void fill_int(void* target, DType dtype, int64_t count, uint64_t seed, uint64_t offset, int64_t low,
              int64_t high, int threads = 1);

/// A small sequential generator for tests, shuffles and cases: the same stream, 64 bits at a time.
class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  uint64_t next();
  /// In [low, high), unbiased to 2^-64 of the range. FK_CHECK low < high.
  int64_t integer(int64_t low, int64_t high);
  double uniform();  ///< [0, 1) with 53 bits
  double normal();

 private:
  uint64_t seed_;
  uint64_t index_ = 0;
};

}  // namespace fk
