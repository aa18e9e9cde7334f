// SPDX-License-Identifier: Apache-2.0
// Reduces blocks of elements: converts each rank's block to a wide type, combines it with the sum,
// and converts the result back.
#include "core/comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/error.hpp"
#include "fk/comm.h"

namespace fk {

namespace {

// Number of elements that are converted to Wide and reduced at a time.
constexpr int64_t kBlock = 512;

template <class Wide>
void combine(Wide* sum, const Wide* next, int64_t count, int64_t op) {
  switch (op) {
    case FK_SUM:
      for (int64_t i = 0; i < count; ++i) sum[i] += next[i];
      break;
    case FK_MAX:
      for (int64_t i = 0; i < count; ++i) sum[i] = std::max(sum[i], next[i]);
      break;
    default:
      for (int64_t i = 0; i < count; ++i) sum[i] = std::min(sum[i], next[i]);
  }
}

template <class Wide>
void reduce(const std::vector<const std::byte*>& from, std::byte* out, DType dtype, DType wide,
            int64_t count, int64_t op) {
  const int64_t width = bytes(dtype);
  std::array<Wide, kBlock> sum, next;
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t here = std::min(kBlock, count - at);
    convert(from[0] + at * width, dtype, sum.data(), wide, here);
    for (size_t r = 1; r < from.size(); ++r) {
      convert(from[r] + at * width, dtype, next.data(), wide, here);
      combine(sum.data(), next.data(), here, op);
    }
    convert(sum.data(), wide, out + at * width, dtype, here);
  }
}

}  // namespace

void reduce_ranks(const std::vector<const std::byte*>& from, std::byte* out, DType dtype,
                  int64_t count, int64_t op) {
  if (op != FK_SUM && op != FK_MAX && op != FK_MIN)
    fail("ranks", "there is no reduction " + std::to_string(op));
  if (dtype == DType::boolean) fail("ranks", "booleans are not reduced");
  if (is_float(dtype))
    reduce<double>(from, out, dtype, DType::f64, count, op);
  else
    reduce<int64_t>(from, out, dtype, DType::i64, count, op);
}

}  // namespace fk
