// SPDX-License-Identifier: Apache-2.0
// indexer_scores: one thread per score. topk_positions: one block per row, which takes the best key that
// is left. sparse_mla_attention: one block per token and head; scores lie in scratch.
#include "fk/ops/indexer_scores.h"
#include "fk/ops/sparse_mla_attention.h"
#include "fk/ops/topk_positions.h"
#include "selection.cuh"

namespace {
using namespace fkr;

// The request of a query token: the last one which starts at the token or before.
__device__ int64_t request_of(const int32_t* starts, int64_t requests, int64_t t) {
  int64_t b = 0;
  while (b + 1 < requests && starts[b + 1] <= t) ++b;
  return b;
}

struct IndexerScores : Plain<fk::indexer_scores> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref q = ref(a.q), weights = ref(a.head_weights), cache = ref(a.k_cache);
    const auto *tables = fk::data<int32_t>(a.block_tables), *starts = fk::data<int32_t>(a.cu_seqlens), *lengths = fk::data<int32_t>(a.seq_lens);
    auto* out = fk::data<float>(a.out);
    const int64_t requests = a.seq_lens->shape[0], pages = a.block_tables->shape[1], columns = a.out->shape[1];
    const int64_t heads = init.num_heads, width = init.head_dim, page = init.page_size;
    const double scale = init.scale;
    for_each(a.out->shape[0] * columns, ctx, [=] __device__(int64_t i) {
      const int64_t t = i / columns, s = i % columns;
      if (t >= starts[requests]) return;
      const int64_t b = request_of(starts, requests, t);
      if (s > lengths[b] - starts[b + 1] + t) {
        out[i] = -INFINITY;
        return;
      }
      const int64_t key = cache.at(tables[b * pages + s / page], s % page);
      double sum = 0;
      for (int64_t h = 0; h < heads; ++h) {
        double dot = 0;
        for (int64_t d = 0; d < width; ++d) dot += load(q, q.at(t, h) + d) * load(cache, key + d);
        if (dot > 0) sum += load(weights, weights.at(t) + h) * dot;
      }
      out[i] = float(scale * sum);
    });
  }
};

struct TopkPositions : Plain<fk::topk_positions> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x);
    auto* ids = fk::data<int32_t>(a.ids);
    const auto* positions = fk::data<int64_t>(a.positions);
    const int64_t width = a.x->shape[1], chosen = init.top_k;
    for_rows(a.x->shape[0], ctx, [=] __device__(int64_t t) {
      const int64_t count = min(width, positions[t] + 1);
      uint64_t key = ~uint64_t{0};
      for (int64_t k = 0; k < chosen; ++k) {
        if (k < count) key = next_key(x, t * width, count, key);
        if (threadIdx.x == 0) ids[t * chosen + k] = k < count ? int32_t(index_of(key)) : -1;
      }
    });
  }
};

struct SparseMlaAttention : Plain<fk::sparse_mla_attention> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need) {
    need.scratch = std::min(max.q_latent->shape[0] * init.num_heads, kMaxBlocks) * max.topk_ids->shape[1] * 8;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref q = ref(a.q_latent), q_pe = ref(a.q_pe), cache = ref(a.kv_cache), out = ref(a.out);
    const auto *tables = fk::data<int32_t>(a.block_tables), *starts = fk::data<int32_t>(a.cu_seqlens), *all_ids = fk::data<int32_t>(a.topk_ids);
    const int64_t requests = a.cu_seqlens->shape[0] - 1, pages = a.block_tables->shape[1], listed = a.topk_ids->shape[1];
    const int64_t heads = init.num_heads, latent = init.kv_lora_rank, rotary = init.qk_rope_head_dim, page = init.page_size;
    const double scale = init.scale;
    auto* scratch = static_cast<double*>(ctx.scratch);
    for_rows(a.q_latent->shape[0] * heads, ctx, [=] __device__(int64_t row) {
      const int64_t t = row / heads, h = row % heads;
      if (t >= starts[requests]) return;
      const int32_t *ids = all_ids + t * listed, *table = tables + request_of(starts, requests, t) * pages;
      double* scores = scratch + blockIdx.x * listed;
      const auto place = [&](int64_t j) { return cache.at(table[ids[j] / page], ids[j] % page); };
      double top = -INFINITY, sum = 0;
      for (int64_t j = threadIdx.x; j < listed; j += blockDim.x) {
        scores[j] = -INFINITY;
        if (ids[j] < 0) continue;
        const int64_t key = place(j);
        double dot = 0;
        for (int64_t d = 0; d < latent; ++d) dot += load(q, q.at(t, h) + d) * load(cache, key + d);
        for (int64_t d = 0; d < rotary; ++d) dot += load(q_pe, q_pe.at(t, h) + d) * load(cache, key + latent + d);
        scores[j] = scale * dot;
        top = fmax(top, scores[j]);
      }
      top = block_max(top);
      for (int64_t j = threadIdx.x; j < listed; j += blockDim.x) sum += scores[j] = ids[j] < 0 ? 0 : exp(scores[j] - top);
      sum = block_sum(sum);
      for (int64_t d = threadIdx.x; d < latent; d += blockDim.x) {
        double value = 0;
        for (int64_t j = 0; j < listed; ++j)
          if (ids[j] >= 0) value += scores[j] * load(cache, place(j) + d);
        store(out, out.at(t, h) + d, sum > 0 ? value / sum : 0);
      }
    });
  }
};
FK_OP(indexer_scores, IndexerScores);
FK_OP(topk_positions, TopkPositions);
FK_OP(sparse_mla_attention, SparseMlaAttention);

}  // namespace
