// SPDX-License-Identifier: Apache-2.0
// honest: source of the first edition of a contract that has a second
#define FK_PAGED_ATTENTION_EDITION 1
#include "../attack.hpp"
#include "fk/ops/paged_attention.h"

namespace {

struct Honest {
  using op = fk::paged_attention;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.q) || !fk::is_float(max.k_cache) || !fk::is_float(max.v_cache) ||
        !fk::is_float(max.out))
      throw fk::unsupported{"f32, bf16 and f16 only"};
    if (weights.sinks.or_null) throw fk::unsupported{"sinks"};
    if (init.num_heads % init.num_kv_heads) throw fk::unsupported{"heads that share unevenly"};
  }
  Honest(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t width = init.head_dim, share = init.num_heads / init.num_kv_heads;
    std::vector<float> q(static_cast<size_t>(width)), k(q), out(q), scores;
    for (int64_t b = 0; b < args.seq_lens->shape[0]; ++b) {
      const int32_t *starts = fk::data<int32_t>(args.cu_seqlens),
                    *table =
                        fk::data<int32_t>(args.block_tables) + b * args.block_tables->strides[0];
      const int64_t length = fk::data<int32_t>(args.seq_lens)[b];
      for (int64_t t = starts[b]; t < starts[b + 1]; ++t) {
        const int64_t at = length - starts[b + 1] + t;
        const int64_t from = init.window > 0 ? std::max<int64_t>(0, at - init.window + 1) : 0;
        for (int64_t h = 0; h < init.num_heads; ++h) {
          fk::load(args.q, t * args.q->strides[0] + h * args.q->strides[1], width, q.data());
          scores.clear();
          const auto row = [&](const fk_in* cache, int64_t j) {
            return table[j / init.page_size] * cache->strides[0] +
                   j % init.page_size * cache->strides[1] + h / share * cache->strides[2];
          };
          for (int64_t j = from; j <= at; ++j) {
            fk::load(args.k_cache, row(args.k_cache, j), width, k.data());
            double dot = 0;
            for (size_t i = 0; i < q.size(); ++i) dot += double{q[i]} * k[i];
            dot *= init.scale;
            if (init.softcap > 0) dot = init.softcap * std::tanh(dot / init.softcap);
            scores.push_back(static_cast<float>(dot));
          }
          std::vector<double> sum(q.size(), 0);
          double total = 0;
          const float most = scores.empty() ? 0 : *std::max_element(scores.begin(), scores.end());
          for (int64_t j = from; j <= at; ++j) {
            const double p = std::exp(double{scores[static_cast<size_t>(j - from)]} - most);
            total += p;
            fk::load(args.v_cache, row(args.v_cache, j), width, k.data());
            for (size_t i = 0; i < q.size(); ++i) sum[i] += p * k[i];
          }
          for (size_t i = 0; i < q.size(); ++i)
            out[i] = total > 0 ? static_cast<float>(sum[i] / total) : 0;
          fk::store(args.out, (t * init.num_heads + h) * width, width, out.data());
        }
      }
    }
  }
};
FK_OP(paged_attention, Honest);

}  // namespace
FK_PLUGIN("old_edition", "0");
