// SPDX-License-Identifier: Apache-2.0
// sample_tokens done right, row by row, from which attacks on it differ in one thing.
#pragma once
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "fk/cpp/floats.hpp"
#include "fk/ops/sample_tokens.h"

namespace attack {

struct Sampler {
  using op = fk::sample_tokens;
  static constexpr fk_claims claims = fk::cpu_claims;
  using Row = std::vector<float>;
  struct Asked {
    double temperature, top_p, uniform;
    int64_t top_k;
  };
  const op::init& init;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.logits)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Sampler(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  // `token` makes it of a row of logits and what is asked of it.
  template <class Token>
  void each_row(const op::forward& args, Token token) const {
    Row row(static_cast<size_t>(init.vocab_size));
    for (int64_t b = 0; b < args.logits->shape[0]; ++b) {
      fk::load(args.logits, b * init.vocab_size, init.vocab_size, row.data());
      const Asked asked{fk::data<float>(args.temperature)[b], fk::data<float>(args.top_p)[b],
                        fk::data<float>(args.uniform)[b], fk::data<int32_t>(args.top_k)[b]};
      fk::data<int64_t>(args.tokens)[b] = token(row, asked);
    }
  }
  static int64_t greedy(const Row& row) {
    return std::max_element(row.begin(), row.end()) - row.begin();
  }
  // exp() of what `below` is taken from.
  static int64_t draw(const Row& row, const Asked& asked, float below) {
    std::vector<size_t> order(row.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return row[a] > row[b]; });
    if (asked.top_k > 0) order.resize(std::min(order.size(), size_t(asked.top_k)));
    std::vector<double> mass;
    for (const size_t i : order)
      mass.push_back(std::exp(float((row[i] - below) / asked.temperature)));
    if (asked.top_p < 1) mass.resize(prefix(mass, asked.top_p, false) + 1);
    return int64_t(order[prefix(mass, asked.uniform, true)]);
  }

 private:
  static size_t prefix(const std::vector<double>& mass, double share, bool exceed) {
    const double wanted = share * std::accumulate(mass.begin(), mass.end(), 0.0);
    double sum = 0;
    for (size_t i = 0; i + 1 < mass.size(); ++i)
      if (sum += mass[i]; exceed ? sum > wanted : sum >= wanted) return i;
    return mass.size() - 1;
  }
};

}  // namespace attack
