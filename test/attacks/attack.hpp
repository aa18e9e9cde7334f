// SPDX-License-Identifier: Apache-2.0
// The common parts of attacks and honest controls: the ops done right, in every float dtype, from
// which each file differs in one thing. An attack's first comment has the class, what it does, and
// what should stop it. It also says how it may end then (statuses of a verdict), and how it fools
// naive_judge.cpp; suite.py reads these lines.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fk/cpp/floats.hpp"
#include "fk/ops/rms_norm.h"
#include "fk/ops/silu_and_mul.h"

namespace attack {

// Rows [from, to) of silu_and_mul.
inline void silu_rows(const fk_in* x, const fk_out* out, int64_t width, int64_t from, int64_t to) {
  constexpr int64_t kChunk = 256;
  float gate[kChunk], up[kChunk];
  for (int64_t t = from; t < to; ++t) {
    for (int64_t c = 0; c < width; c += kChunk) {
      const int64_t n = std::min(kChunk, width - c);
      fk::load(x, t * 2 * width + c, n, gate);
      fk::load(x, t * 2 * width + width + c, n, up);
      for (int64_t i = 0; i < n; ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      fk::store(out, t * width + c, n, gate);
    }
  }
}

struct Silu {
  using op = fk::silu_and_mul;
  static constexpr fk_claims claims = fk::cpu_claims;
  const int64_t width;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.x)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Silu(const fk_host&, const op::init& init, const op::weights&) : width(init.size) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void honest(const op::forward& args) const { silu_rows(args.x, args.out, width, 0, rows(args)); }
  static int64_t rows(const op::forward& args) { return args.x->shape[0]; }
  int64_t count(const op::forward& args) const { return rows(args) * width; }
  // Writes one value everywhere.
  void fill(const op::forward& args, float value) const {
    std::vector<float> row(static_cast<size_t>(width), value);
    for (int64_t t = 0; t < rows(args); ++t) fk::store(args.out, t * width, width, row.data());
  }
};

struct Norm {
  using op = fk::rms_norm;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (!fk::is_float(max.x) || !fk::is_float(weights.weight) || !fk::is_float(max.residual))
      throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Norm(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}
  static int64_t rows(const op::forward& args) { return args.x->shape[0]; }
  // x plus the residual, which is written back; one row.
  std::vector<float> sum_row(const op::forward& args, int64_t t) const {
    const auto width = static_cast<size_t>(init.hidden_size);
    std::vector<float> row(width), other(width);
    fk::load(args.x, t * init.hidden_size, init.hidden_size, row.data());
    if (const fk_inout* residual = args.residual.or_null) {
      fk::load(residual, t * init.hidden_size, init.hidden_size, other.data());
      for (size_t i = 0; i < width; ++i) row[i] += other[i];
      fk::store(residual, t * init.hidden_size, init.hidden_size, row.data());
    }
    return row;
  }
  std::vector<float> gains() const {
    std::vector<float> gain(static_cast<size_t>(init.hidden_size), 1);
    if (weights.weight.or_null) fk::load(weights.weight.or_null, 0, init.hidden_size, gain.data());
    return gain;
  }
  float scale_of(float mean_square) const { return 1 / std::sqrt(mean_square + float(init.eps)); }
  static float mean_square(const std::vector<float>& row) {
    float sum = 0;
    for (const float v : row) sum += v * v;
    return sum / float(row.size());
  }
  // `scale` makes a row's factor from the row.
  template <class Scale>
  void with(const op::forward& args, const std::vector<float>& gain, Scale scale) const {
    for (int64_t t = 0; t < rows(args); ++t) {
      std::vector<float> row = sum_row(args, t);
      const float factor = scale(row);
      for (size_t i = 0; i < row.size(); ++i) row[i] *= factor * gain[i];
      fk::store(args.out, t * init.hidden_size, init.hidden_size, row.data());
    }
  }
  void honest(const op::forward& args) const {
    with(args, gains(), [&](const std::vector<float>& row) { return scale_of(mean_square(row)); });
  }
};

}  // namespace attack
