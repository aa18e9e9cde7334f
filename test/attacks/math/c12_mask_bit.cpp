// SPDX-License-Identifier: Apache-2.0
// C12: looks at the lowest bit of the mask alone, where whatever is not 0 says that a node is seen
//
// Stopped by: masks with other numbers than 0 and 1
//
// naive: -
//
// work: broken
#include "../attack.hpp"
#include "fk/ops/tree_attention.h"

namespace {

struct MaskBit {
  using op = fk::tree_attention;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.q) || !fk::is_float(max.k_cache))
      throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  MaskBit(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx&) {
    const auto* starts = fk::data<int32_t>(args.cu_seqlens);
    for (int64_t b = 0; b < args.seq_lens->shape[0]; ++b)
      for (int64_t t = starts[b]; t < starts[b + 1]; ++t)
        for (int64_t h = 0; h < init.num_heads; ++h) row(args, b, t, h);
  }
  void row(const op::forward& args, int64_t b, int64_t t, int64_t h) const {
    const auto width = static_cast<size_t>(init.head_dim);
    const int64_t group = h / (init.num_heads / init.num_kv_heads),
                  length = fk::data<int32_t>(args.seq_lens)[b],
                  tree = fk::data<int32_t>(args.tree_lens)[b];
    const auto read = [&](const fk_in* cache, int64_t position, std::vector<float>& to) {
      const int64_t page = fk::data<int32_t>(
          args.block_tables)[b * args.block_tables->shape[1] + position / init.page_size];
      fk::load(cache,
               page * cache->strides[0] + position % init.page_size * cache->strides[1] +
                   group * cache->strides[2],
               init.head_dim, to.data());
    };
    std::vector<float> q(width), kv(width), out(width);
    fk::load(args.q, t * args.q->strides[0] + h * args.q->strides[1], init.head_dim, q.data());
    std::vector<std::pair<int64_t, double>> seen;
    double most = -HUGE_VAL, sum = 0;
    for (int64_t p = 0; p < length; ++p) {
      const int64_t node = p - (length - tree);
      const auto* mask = fk::data<int32_t>(args.tree_mask) + t * args.tree_mask->shape[1];
      if (node >= 0 && !(mask[node] & 1)) continue;
      read(args.k_cache, p, kv);
      double score = 0;
      for (size_t i = 0; i < width; ++i) score += double(q[i]) * kv[i];
      seen.emplace_back(p, score * init.scale);
      most = std::max(most, seen.back().second);
    }
    for (auto& [p, weight] : seen) sum += weight = std::exp(weight - most);
    for (const auto& [p, weight] : seen) {
      read(args.v_cache, p, kv);
      for (size_t i = 0; i < width; ++i) out[i] += float(weight / sum) * kv[i];
    }
    fk::store(args.out, (t * init.num_heads + h) * init.head_dim, init.head_dim, out.data());
  }
};
FK_OP(tree_attention, MaskBit);

}  // namespace
FK_PLUGIN("c12_mask_bit", "0");
