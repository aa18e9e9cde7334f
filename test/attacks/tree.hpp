// SPDX-License-Identifier: Apache-2.0
// tree_attention, but for what a query takes for the tree and for seen.
#pragma once
#include "attack.hpp"
#include "fk/ops/tree_attention.h"

namespace attack {

struct Tree {
  using op = fk::tree_attention;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.q) || !fk::is_float(max.k_cache))
      throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Tree(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  // `tree`: how many of the last positions are nodes; `sees`: whether a mask's number says so.
  template <class Sees>
  void row(const op::forward& args, int64_t b, int64_t tree, int64_t t, int64_t h,
           Sees sees) const {
    const auto width = static_cast<size_t>(init.head_dim);
    const int64_t group = h / (init.num_heads / init.num_kv_heads),
                  length = fk::data<int32_t>(args.seq_lens)[b];
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
      if (node >= 0 && !sees(mask[node])) continue;
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

}  // namespace attack
