// SPDX-License-Identifier: Apache-2.0
// paged_attention, attention_varlen, tree_attention, mla_attention: one block per query token and head. Keys are taken
// in chunks of one per thread; scores, the running maximum and the sums are double. ms_deform_attn: one thread per
// element.
#include "common.cuh"
#include "fk/ops/attention_varlen.h"
#include "fk/ops/mla_attention.h"
#include "fk/ops/ms_deform_attn.h"
#define FK_PAGED_ATTENTION_EDITION 2
#include "fk/ops/paged_attention.h"
#include "fk/ops/tree_attention.h"

namespace {
using namespace fkr;
constexpr int kChunk = kThreads / 2;

// A query: `width` channels of q, then `width_pe` of q_pe.
struct Queries {
  Ref q, q_pe;
  int64_t width, width_pe;
  __device__ double at(int64_t t, int64_t head, int64_t d) const {
    return d < width ? load(q, q.at(t, head) + d) : load(q_pe, q_pe.at(t, head) + d - width);
  }
};
// Where key `position` of request b lies: paged through the table, or dense from a start.
struct Keys {
  Ref k, v;
  const int32_t *table, *starts;  // one of them
  int64_t columns, page;          // of the table, of a page
  __device__ int64_t at(const Ref& r, int64_t b, int64_t position, int64_t head) const {
    if (!table) return r.at(starts[b] + position, head);
    return r.at(table[b * columns + position / page], position % page, head);
  }
};
// The queries of all requests, and the contexts of paged ones.
struct Requests {
  const int32_t *starts, *lengths;
  int64_t count;
  // Which request a query token belongs to: the last start that is not beyond it.
  __device__ int64_t of(int64_t t) const {
    int64_t b = 0;
    while (b + 1 < count && starts[b + 1] <= t) ++b;
    return b;
  }
};
struct Rule {
  double scale, softcap;
  int64_t window;
  bool causal;
  const int32_t *tree_lengths, *tree_mask;  // null: no trees
  int64_t mask_columns;
  // Of a context of `length` positions the last are a tree, of which the mask says what query t sees.
  __device__ bool hides(int64_t b, int64_t t, int64_t length, int64_t position) const {
    if (!tree_mask) return false;
    const int64_t node = position - (length - tree_lengths[b]);
    return node >= 0 && !tree_mask[t * mask_columns + node];
  }
};

__device__ void attend(const Queries& queries, const Keys& keys, const Ref& sinks, const Ref& out, const Requests& requests,
                       const Rule& rule, int64_t kv, int64_t width, int64_t t, int64_t head) {
  const int64_t depth = queries.width + queries.width_pe, b = requests.of(t);
  double *query = dynamic_shared(), *sums = query + depth, *scores = sums + width;  // [depth], [width], [kChunk]
  if (t >= requests.starts[requests.count]) return;
  const int64_t count = requests.starts[b + 1] - requests.starts[b];
  const int64_t length = keys.table ? requests.lengths[b] : keys.starts[b + 1] - keys.starts[b];
  const int64_t position = length - count + (t - requests.starts[b]);
  int64_t first = 0, last = rule.causal ? position : length - 1;
  if (rule.window > 0) {
    first = position - rule.window + 1 > 0 ? position - rule.window + 1 : 0;
    if (!rule.causal && position + rule.window - 1 < last) last = position + rule.window - 1;
  }
  for (int64_t d = threadIdx.x; d < depth; d += blockDim.x) query[d] = queries.at(t, head, d);
  for (int64_t d = threadIdx.x; d < width; d += blockDim.x) sums[d] = 0;
  double most = load_or(sinks, head, -INFINITY), total = sinks.data ? 1 : 0;
  __syncthreads();
  for (int64_t start = first; start <= last; start += kChunk) {
    const int64_t here = start + threadIdx.x;
    double score = -INFINITY;
    if (here <= last && !rule.hides(b, t, length, here)) {
      const int64_t at = keys.at(keys.k, b, here, kv);
      score = 0;
      for (int64_t d = 0; d < depth; ++d) score += query[d] * load(keys.k, at + d);
      score *= rule.scale;
      if (rule.softcap > 0) score = rule.softcap * tanh(score / rule.softcap);
    }
    const double next = fmax(most, block_max(score));
    const double shrink = most == -INFINITY ? 0 : exp(most - next), weight = score == -INFINITY ? 0 : exp(score - next);
    total = total * shrink + block_sum(weight);
    most = next;
    scores[threadIdx.x] = weight;
    __syncthreads();
    const int64_t used = last - start + 1 < kChunk ? last - start + 1 : kChunk;
    for (int64_t d = threadIdx.x; d < width; d += blockDim.x) {
      double sum = sums[d] * shrink;
      for (int64_t i = 0; i < used; ++i) {
        if (scores[i] != 0) sum += scores[i] * load(keys.v, keys.at(keys.v, b, start + i, kv) + d);
      }
      sums[d] = sum;
    }
    __syncthreads();
  }
  // A query that sees nothing gives 0.
  for (int64_t d = threadIdx.x; d < width; d += blockDim.x) store(out, out.at(t, head) + d, total == 0 ? 0 : sums[d] / total);
}

// `heads` of a query, `group` of them to a head of keys; values have `width` channels.
void attend_all(const Queries& queries, const Keys& keys, const Ref& sinks, const Ref& out, const Requests& requests, const Rule& rule,
                int64_t tokens, int64_t heads, int64_t group, int64_t width, const fk_ctx& ctx) {
  const size_t shared = size_t(queries.width + queries.width_pe + width + kChunk) * 8;
  for_rows(tokens * heads, kChunk, shared, ctx, [=] __device__(int64_t row) {
    attend(queries, keys, sinks, out, requests, rule, row % heads / group, width, row / heads, row % heads);
  });
}
void need_shared(int64_t depth, int64_t width) {
  if ((depth + width + kChunk) * 8 > kSharedLimit) throw fk::unsupported{"wider heads than shared memory holds"};
}
void need_groups(int64_t heads, int64_t kv_heads) {
  if (heads % kv_heads) throw fk::unsupported{"num_heads is not a multiple of num_kv_heads"};
}

struct PagedAttention : Plain<fk::paged_attention> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    need_groups(init.num_heads, init.num_kv_heads);
    need_shared(init.head_dim, init.head_dim);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Keys keys{ref(a.k_cache), ref(a.v_cache), fk::data<int32_t>(a.block_tables), nullptr, a.block_tables->shape[1], init.page_size};
    const Requests requests{fk::data<int32_t>(a.cu_seqlens), fk::data<int32_t>(a.seq_lens), a.seq_lens->shape[0]};
    attend_all(Queries{ref(a.q), Ref{}, init.head_dim, 0}, keys, ref(weights.sinks), ref(a.out), requests,
               Rule{init.scale, init.softcap, init.window, init.causal != 0, nullptr, nullptr, 0}, a.q->shape[0], init.num_heads,
               init.num_heads / init.num_kv_heads, init.head_dim, ctx);
  }
};
struct AttentionVarlen : Plain<fk::attention_varlen> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    need_groups(init.num_heads, init.num_kv_heads);
    need_shared(init.head_dim, init.head_dim);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Keys keys{ref(a.k), ref(a.v), nullptr, fk::data<int32_t>(a.cu_seqlens_k), 0, 0};
    const Requests requests{fk::data<int32_t>(a.cu_seqlens_q), nullptr, a.cu_seqlens_q->shape[0] - 1};
    attend_all(Queries{ref(a.q), Ref{}, init.head_dim, 0}, keys, Ref{}, ref(a.out), requests,
               Rule{init.scale, 0, init.window, init.causal != 0, nullptr, nullptr, 0}, a.q->shape[0], init.num_heads,
               init.num_heads / init.num_kv_heads, init.head_dim, ctx);
  }
};
struct TreeAttention : Plain<fk::tree_attention> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    need_groups(init.num_heads, init.num_kv_heads);
    need_shared(init.head_dim, init.head_dim);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Keys keys{ref(a.k_cache), ref(a.v_cache), fk::data<int32_t>(a.block_tables), nullptr, a.block_tables->shape[1], init.page_size};
    const Requests requests{fk::data<int32_t>(a.cu_seqlens), fk::data<int32_t>(a.seq_lens), a.seq_lens->shape[0]};
    attend_all(Queries{ref(a.q), Ref{}, init.head_dim, 0}, keys, Ref{}, ref(a.out), requests,
               Rule{init.scale, 0, 0, false, fk::data<int32_t>(a.tree_lens), fk::data<int32_t>(a.tree_mask), a.tree_mask->shape[1]},
               a.q->shape[0], init.num_heads, init.num_heads / init.num_kv_heads, init.head_dim, ctx);
  }
};
// All heads share one key, whose first channels are the value.
struct MlaAttention : Plain<fk::mla_attention> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    need_shared(init.kv_lora_rank + init.qk_rope_head_dim, init.kv_lora_rank);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    Ref cache = ref(a.kv_cache);
    cache.stride[2] = 0;
    const Keys keys{cache, cache, fk::data<int32_t>(a.block_tables), nullptr, a.block_tables->shape[1], init.page_size};
    const Requests requests{fk::data<int32_t>(a.cu_seqlens), fk::data<int32_t>(a.seq_lens), a.seq_lens->shape[0]};
    attend_all(Queries{ref(a.q_latent), ref(a.q_pe), init.kv_lora_rank, init.qk_rope_head_dim}, keys, Ref{}, ref(a.out), requests,
               Rule{init.scale, 0, 0, true, nullptr, nullptr, 0}, a.q_latent->shape[0], init.num_heads, init.num_heads, init.kv_lora_rank,
               ctx);
  }
};

// The pixels of a level, and a place between four of them.
struct Level {
  int64_t high, wide, start;
  // Calls add(pixel, share) for those of the four that are inside.
  template <class Add>
  __device__ void around(double x, double y, Add add) const {
    for (int i = 0; i < 4; ++i) {
      const double row = floor(y) + i / 2, column = floor(x) + i % 2;
      if (row < 0 || column < 0 || row >= double(high) || column >= double(wide)) continue;
      add(start + int64_t(row) * wide + int64_t(column), (1 - fabs(y - row)) * (1 - fabs(x - column)));
    }
  }
};
struct DeformableAttention : Plain<fk::ms_deform_attn> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref value = ref(a.value), places = ref(a.sampling_locations), shares = ref(a.attention_weights), out = ref(a.out);
    const auto *shapes = fk::data<int64_t>(a.spatial_shapes), *starts = fk::data<int64_t>(a.level_start_index);
    const int64_t queries = a.out->shape[1], heads = init.num_heads, width = init.head_dim, levels = init.num_levels, points = init.num_points;
    for_each(a.out->shape[0] * queries * heads * width, ctx, [=] __device__(int64_t i) {
      const int64_t d = i % width, h = i / width % heads, q = i / width / heads % queries, b = i / width / heads / queries;
      double sum = 0;
      for (int64_t l = 0; l < levels; ++l) {
        const Level level{shapes[2 * l], shapes[2 * l + 1], starts[l]};
        for (int64_t p = 0; p < points; ++p) {
          const int64_t place = places.at(b, q, h, l, p);
          const double weight = load(shares, shares.at(b, q, h, l, p));
          const double x = load(places, place) * double(level.wide) - 0.5, y = load(places, place + 1) * double(level.high) - 0.5;
          level.around(x, y, [&](int64_t pixel, double share) { sum += share * weight * load(value, value.at(b, pixel, h) + d); });
        }
      }
      store(out, i, sum);
    });
  }
};
FK_OP(paged_attention, PagedAttention);
FK_OP(attention_varlen, AttentionVarlen);
FK_OP(tree_attention, TreeAttention);
FK_OP(mla_attention, MlaAttention);
FK_OP(ms_deform_attn, DeformableAttention);

}  // namespace
