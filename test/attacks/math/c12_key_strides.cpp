// SPDX-License-Identifier: Apache-2.0
// C12: paged_attention that finds values by the strides of the keys, which caches that are made
// alike have in common
//
// Stopped by: padded tensors of one shape have gaps of unlike sizes
//
// verdict: wrong illegal_access
//
// size: ci
//
// naive: -
//
// work: broken
#include "../attack.hpp"
#define FK_PAGED_ATTENTION_EDITION 2
#include "fk/ops/paged_attention.h"

namespace {

struct KeyStrides {
  using op = fk::paged_attention;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.q) || !fk::is_float(max.k_cache))
      throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  KeyStrides(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void attend(const op::forward& args, int64_t b, int64_t t, int64_t h, int64_t position) const {
    const int64_t width = init.head_dim, head = h / (init.num_heads / init.num_kv_heads);
    const int64_t length = fk::data<int32_t>(args.seq_lens)[b];
    const int64_t first = init.window > 0 ? std::max<int64_t>(0, position - init.window + 1) : 0;
    int64_t last = init.causal ? position + 1 : length;
    if (init.window > 0) last = std::min(last, position + init.window);
    std::vector<float> q(static_cast<size_t>(width)), row(q);
    fk::load(args.q, t * args.q->strides[0] + h * args.q->strides[1], width, q.data());
    const auto* pages = fk::data<int32_t>(args.block_tables) + b * args.block_tables->shape[1];
    const int64_t* strides = args.k_cache->strides;
    const auto at = [&](int64_t j) {
      return pages[j / init.page_size] * strides[0] + j % init.page_size * strides[1] +
             head * strides[2];
    };
    std::vector<double> scores, out(static_cast<size_t>(width));
    double top = -HUGE_VAL, sum = 0;
    if (const fk_in* sinks = weights.sinks.or_null)
      top = static_cast<double>(fk::data<float>(sinks)[h]);
    const double sink = top;
    for (int64_t j = first; j < last; ++j) {
      fk::load(args.k_cache, at(j), width, row.data());
      double score = 0;
      for (size_t d = 0; d < q.size(); ++d)
        score += static_cast<double>(q[d]) * static_cast<double>(row[d]);
      score *= init.scale;
      if (init.softcap > 0) score = init.softcap * std::tanh(score / init.softcap);
      scores.push_back(score);
      top = std::max(top, score);
    }
    if (weights.sinks.or_null) sum = std::exp(sink - top);
    for (const double score : scores) sum += std::exp(score - top);
    for (int64_t j = first; j < last; ++j) {
      fk::load(args.v_cache, at(j), width, row.data());
      const double p = std::exp(scores[static_cast<size_t>(j - first)] - top) / sum;
      for (size_t d = 0; d < out.size(); ++d) out[d] += p * static_cast<double>(row[d]);
    }
    for (size_t d = 0; d < out.size(); ++d) row[d] = static_cast<float>(out[d]);
    fk::store(args.out, (t * init.num_heads + h) * width, width, row.data());
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const auto* starts = fk::data<int32_t>(args.cu_seqlens);
    for (int64_t b = 0; b < args.seq_lens->shape[0]; ++b)
      for (int64_t t = starts[b]; t < starts[b + 1]; ++t)
        for (int64_t h = 0; h < init.num_heads; ++h)
          attend(args, b, t, h, fk::data<int32_t>(args.seq_lens)[b] - (starts[b + 1] - t));
  }
};
FK_OP(paged_attention, KeyStrides);

}  // namespace
FK_PLUGIN("c12_key_strides", "0");
