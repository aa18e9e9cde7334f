// SPDX-License-Identifier: Apache-2.0
// For attacks that gain if several instances have the same weights. It says which have, and has a
// linear that is quick on the CPU, so memory takes the time.
#pragma once
#include <list>

#include "linear.hpp"

namespace attack {

inline bool same_bytes(const fk_in* a, const fk_in* b) {
  if (!a || !b) return a == b;
  return a->nbytes == b->nbytes && FK_DTYPE(a) == FK_DTYPE(b) &&
         std::memcmp(a->data, b->data, static_cast<size_t>(a->nbytes)) == 0;
}

// Rows of n floats, with zeros behind it in whole vectors, with as many others as there are.
template <int kCount>
inline __attribute__((always_inline)) void dots(const float* row, const float* others, int64_t n,
                                                float* out) {
  using Lanes = float __attribute__((vector_size(64)));
  using Half = float __attribute__((vector_size(32)));
  using Quarter = float __attribute__((vector_size(16)));
  Lanes sums[kCount] = {}, a, b;
  for (int64_t i = 0; i < n; i += 16) {
    std::memcpy(&a, row + i, sizeof a);
    for (int m = 0; m < kCount; ++m) {
      std::memcpy(&b, others + m * n + i, sizeof b);
      sums[m] += a * b;
    }
  }
  for (int m = 0; m < kCount; ++m) {
    Half half[2];
    std::memcpy(half, &sums[m], sizeof half);
    half[0] += half[1];
    Quarter quarter[2];
    std::memcpy(quarter, half, sizeof quarter);
    quarter[0] += quarter[1];
    out[m] = (quarter[0][0] + quarter[0][1]) + (quarter[0][2] + quarter[0][3]);
  }
}
__attribute__((target_clones("avx512f", "avx2", "default"))) inline void products(
    const float* row, const float* others, int64_t count, int64_t n, float* out) {
  int64_t m = 0;
  for (; m + 5 <= count; m += 5) dots<5>(row, others + m * n, n, out + m);
  for (; m + 3 <= count; m += 3) dots<3>(row, others + m * n, n, out + m);
  for (; m < count; ++m) dots<1>(row, others + m * n, n, out + m);
}

struct SameWeights : Linear {
  using Linear::Linear;
  struct Known {
    const fk_in *weight, *bias;
    int users;
  };
  static inline std::list<Known> all;
  std::list<Known>::iterator mine;
  static constexpr int64_t kTwice = 6;
  int64_t wide = 0;  // a row in whole vectors; behind its end are zeros
  std::vector<float> x, w, y, row, bias;

  SameWeights(const fk_host& host, const op::init& i, const op::weights& given)
      : Linear(host, i, given), wide((i.in_features + 15) / 16 * 16) {
    const fk_in* const bias = given.bias.or_null;
    mine = std::find_if(all.begin(), all.end(), [&](const Known& one) {
      return same_bytes(one.weight, given.weight) && same_bytes(one.bias, bias);
    });
    if (mine == all.end()) mine = all.insert(all.end(), {given.weight, bias, 0});
    ++mine->users;
  }
  ~SameWeights() {
    if (--mine->users == 0) all.erase(mine);
  }
  // Room for so many rows of x and of what comes out.
  void room(int64_t rows) {
    x.resize(static_cast<size_t>(rows * wide));
    w.resize(static_cast<size_t>(wide));
    y.resize(static_cast<size_t>(rows * init.out_features));
    row.resize(static_cast<size_t>(init.out_features));
    bias.resize(row.size());
  }
  // y[n][rows] of the rows in x; a part of it twice, because the truth about what is right has to
  // be that it is slow.
  void multiply(int64_t rows) {
    const int64_t k = init.in_features, n = init.out_features;
    for (int64_t i = -(n / kTwice); i < n; ++i) {
      const int64_t at = i < 0 ? n + i : i;
      fk::load(mine->weight, at * k, k, w.data());
      products(w.data(), x.data(), rows, wide, &y[static_cast<size_t>(at * rows)]);
    }
  }
  // Writes the content of y: `count` rows from `first` on, `rows` in all.
  void store(const fk_out* out, int64_t first, int64_t count, int64_t rows) {
    const int64_t n = init.out_features;
    if (mine->bias) fk::load(mine->bias, 0, n, bias.data());
    for (int64_t m = 0; m < count; ++m) {
      for (int64_t i = 0; i < n; ++i)
        row[static_cast<size_t>(i)] =
            y[static_cast<size_t>(i * rows + first + m)] + bias[static_cast<size_t>(i)];
      fk::store(out, m * n, n, row.data());
    }
  }
};

}  // namespace attack
