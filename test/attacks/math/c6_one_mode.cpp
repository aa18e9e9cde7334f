// SPDX-License-Identifier: Apache-2.0
// C6: looks at the first row alone to see whether all of them are greedy and whether any is cut
//
// Stopped by: rows of one call that differ in what is asked of them
//
// naive: -
//
// work: broken
#include <numeric>

#include "../attack.hpp"
#include "fk/ops/sample_tokens.h"

namespace {

struct OneMode {
  using op = fk::sample_tokens;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.logits)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  OneMode(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx&) {
    const auto first = [](const fk_in* t) { return fk::data<float>(t)[0]; };
    const bool greedy = first(args.temperature) == 0, cut = first(args.top_p) < 1;
    std::vector<float> row(static_cast<size_t>(init.vocab_size));
    for (int64_t b = 0; b < args.logits->shape[0]; ++b) {
      fk::load(args.logits, b * init.vocab_size, init.vocab_size, row.data());
      const double scale = 1 / std::max(1e-5, double(fk::data<float>(args.temperature)[b]));
      fk::data<int64_t>(args.tokens)[b] =
          greedy
              ? std::max_element(row.begin(), row.end()) - row.begin()
              : draw(row, scale, fk::data<int32_t>(args.top_k)[b],
                     cut ? fk::data<float>(args.top_p)[b] : 1.0, fk::data<float>(args.uniform)[b]);
    }
  }
  int64_t draw(const std::vector<float>& row, double scale, int64_t top_k, double top_p,
               double uniform) const {
    std::vector<size_t> order(row.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return row[a] > row[b]; });
    if (top_k > 0) order.resize(std::min(order.size(), size_t(top_k)));
    std::vector<double> mass;
    for (const size_t i : order) mass.push_back(std::exp((row[i] - row[order[0]]) * scale));
    if (top_p < 1) mass.resize(prefix(mass, top_p, false) + 1);
    return int64_t(order[prefix(mass, uniform, true)]);
  }
  static size_t prefix(const std::vector<double>& mass, double share, bool exceed) {
    const double wanted = share * std::accumulate(mass.begin(), mass.end(), 0.0);
    double sum = 0;
    for (size_t i = 0; i + 1 < mass.size(); ++i)
      if (sum += mass[i]; exceed ? sum > wanted : sum >= wanted) return i;
    return mass.size() - 1;
  }
};
FK_OP(sample_tokens, OneMode);

}  // namespace
FK_PLUGIN("c6_one_mode", "0");
