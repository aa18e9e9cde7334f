// SPDX-License-Identifier: Apache-2.0
// paged_attention, attention_varlen, tree_attention, mla_attention: a block for each tile of
// queries, which takes keys in chunks. Scores, the running maximum and sums are double.
// ms_deform_attn: one thread per element. biased_attention: a block for each query and head.
#include "common.cuh"
#define FK_ATTENTION_VARLEN_EDITION 2
#include "fk/ops/attention_varlen.h"
#include "fk/ops/biased_attention.h"
#include "fk/ops/mla_attention.h"
#include "fk/ops/ms_deform_attn.h"
#define FK_PAGED_ATTENTION_EDITION 3
#include "fk/ops/paged_attention.h"
#include "fk/ops/tree_attention.h"

namespace {
using namespace fkr;

// A query: `width` channels of q, then `width_pe` of q_pe.
struct Queries {
  Ref q, q_pe;
  int64_t width, width_pe;
  __device__ double at(int64_t t, int64_t head, int64_t d) const {
    return d < width ? load(q, q.at(t, head) + d) : load(q_pe, q_pe.at(t, head) + d - width);
  }
};
// The place of key `position` of request b: in pages of the table, or in rows from a start.
struct Keys {
  Ref k, v;
  const int32_t *table, *starts;  // one of them
  int64_t columns, page;          // of the table, of a page
  __device__ int64_t at(const Ref& r, int64_t b, int64_t position, int64_t head) const {
    if (!table) return r.at(starts[b] + position, head);
    return r.at(table[b * columns + position / page], position % page, head);
  }
};
// The queries of all requests, and the contexts of requests with pages.
struct Requests {
  const int32_t *starts, *lengths;
  int64_t count;
  // The request of a query token: the last one which starts at the token or before.
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
  const float* slopes = nullptr;  // by head: a score grows by the slope times the distance to the key
  const float* distances = nullptr;  // [rows, heads]: or by the row of the distance, whose middle is 0
  int64_t rows = 0, heads = 0;
  __device__ double score(double product, int64_t head, int64_t distance) const {
    double score = product * scale;
    if (softcap > 0) score = softcap * tanh(score / softcap);
    if (distances) score += double(distances[min(max(rows / 2 + distance, int64_t(0)), rows - 1) * heads + head]);
    return slopes ? score + double(slopes[head]) * double(distance) : score;
  }
  // The last positions of a context of `length` positions are a tree. The mask has the visible
  // nodes of query t.
  __device__ bool hides(int64_t b, int64_t t, int64_t length, int64_t position) const {
    if (!tree_mask) return false;
    const int64_t node = position - (length - tree_lengths[b]);
    return node >= 0 && !tree_mask[t * mask_columns + node];
  }
};

// The division of rows: a row is a query of one head. A tile has `tile_heads` of the heads with the
// same keys, for `tile_tokens` tokens.
struct Split {
  int64_t tokens, heads, group, tile_tokens, tile_heads, width;
};
constexpr int kTileThreads = 256, kWarps = kTileThreads / 32;
// Doubles from row to row in shared memory. The remainder spreads the rows of a fragment over
// banks.
__host__ __device__ inline int step_of(int64_t columns) { return int((columns + 11) / 16 * 16 + 4); }
__host__ __device__ inline int up(int64_t n, int step) { return int((n + step - 1) / step * step); }

// Loads kKeys rows from `start` on into `kv`, as double. Rows outside of [first, last] and columns
// up to `padded` are zeros. True if all values of this thread are finite.
template <int kKeys>
__device__ bool load_rows(double* kv, int step, const Keys& keys, const Ref& cache, int64_t b, int64_t kv_head, int64_t start, int64_t first, int64_t last,
                          int columns, int padded) {
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
  return with_elements(cache, [&](const auto* elements) {
    bool finite = true;
    for (int i = warp; i < kKeys; i += kWarps) {
      const bool seen = start + i >= first && start + i <= last;
      const auto* key = elements + keys.at(cache, b, seen ? start + i : last, kv_head);
#pragma unroll 4
      for (int d = lane; d < padded; d += 32) {
        const double read = as_double(key[min(d, columns - 1)]), v = seen && d < columns ? read : 0;
        finite = finite && fabs(v) < INFINITY;
        kv[i * step + d] = v;
      }
    }
    return finite;
  });
}

// Scores of 16 * kHigh rows and kKeys keys.
template <int kHigh, int kKeys> __device__ void multiply_keys(double* scores, const double* q, int q_step, const double* kv, int step, int deep) {
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32), g = lane / 4, t4 = lane % 4;
#pragma unroll 1
  for (int f = warp; f < kHigh * (kKeys / 8); f += kWarps) {
    const int high = f % kHigh * 16, across = f / kHigh * 8;
    double c[4] = {};
    for (int k = 0; k < deep; k += 4)
      multiply(c, q[(high + g) * q_step + k + t4], q[(high + g + 8) * q_step + k + t4], kv[(across + g) * step + k + t4]);
    for (int e = 0; e < 4; ++e) scores[(high + g + e / 2 * 8) * (kKeys + 4) + across + 2 * t4 + e % 2] = c[e];
  }
}

// Online softmax: turns kCount products of a thread, kPart apart, into weights. kPart neighbouring
// threads share a row. score(product, m): the score of key m, -INFINITY for a hidden one. Returns
// the factor of the row's earlier sums.
template <int kPart, int kCount, class Score> __device__ double online_softmax(double* scores, double& most, double& total, Score score) {
  double weight[kCount], next = most;
  for (int m = 0; m < kCount; ++m) {
    weight[m] = score(scores[m * kPart], m * kPart);
    next = fmax(next, weight[m]);
  }
  for (int k = kPart / 2; k > 0; k >>= 1) next = fmax(next, __shfl_xor_sync(0xffffffffu, next, k));
  const double shrink = most == -INFINITY ? 0 : exp(most - next);
  double all = 0;
  for (int m = 0; m < kCount; ++m) {
    const double w = weight[m] == -INFINITY ? 0 : exp(weight[m] - next);
    scores[m * kPart] = w;
    all += w;
  }
  for (int k = kPart / 2; k > 0; k >>= 1) all += __shfl_xor_sync(0xffffffffu, all, k);
  total = total * shrink + all;
  most = next;
  return shrink;
}

// Adds values times weights to the sums, which shrink first. odd: some value is not finite.
template <int kHigh, int kKeys, int kAcross>
__device__ void add_values(double (&sum)[kAcross][4], const double* scores, const double* shrinks, const double* kv, int step, int wide, const int& odd) {
  constexpr int kScores = kKeys + 4;
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32), g = lane / 4, t4 = lane % 4;
#pragma unroll
  for (int i = 0; i < kAcross; ++i) {
    const int f = warp + i * kWarps, high = f % kHigh * 16, across = f / kHigh * 8;
    if (across >= wide) break;
    for (int e = 0; e < 4; ++e) sum[i][e] *= shrinks[high + g + e / 2 * 8];
    if (!odd) {
      for (int k = 0; k < kKeys; k += 4)
        multiply(sum[i], scores[(high + g) * kScores + k + t4], scores[(high + g + 8) * kScores + k + t4], kv[(k + t4) * step + across + g]);
      continue;
    }
    // An invisible value must not reach the row: 0 times infinity is NaN.
#pragma unroll 1
    for (int k = 0; k < kKeys; ++k)
      for (int e = 0; e < 4; ++e) {
        const double w = scores[(high + g + e / 2 * 8) * kScores + k];
        if (w != 0) sum[i][e] += w * kv[k * step + across + 2 * t4 + e % 2];
      }
  }
}

// kRows rows in shared memory times kKeys keys at a time, on the double-precision tensor cores.
// Keys begin at multiples of kKeys, so a row's result does not depend on its neighbours. A warp has
// kAcross fragments of the sums.
template <int kRows, int kKeys, int kAcross>
__global__ void __launch_bounds__(kTileThreads, kRows / 16) attend(Queries queries, Keys keys, Ref sinks, Ref out, Requests requests, Rule rule, Split split) {
  constexpr int kPart = kTileThreads / kRows, kScores = kKeys + 4, kHigh = kRows / 16;  // kPart: threads of a row
  static_assert(kKeys % kPart == 0 && kPart <= 32);
  __shared__ double shrinks[kRows], totals[kRows];
  __shared__ int odd;  // some value is not finite
  const int depth = int(queries.width + queries.width_pe), deep = up(depth, 4), width = int(split.width), wide = up(width, 8);
  const int q_step = step_of(deep), step = step_of(max(deep, wide));
  double *q = dynamic_shared(), *kv = q + kRows * q_step, *scores = kv + kKeys * step;
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32), g = lane / 4, t4 = lane % 4;
  const int64_t tiles = (split.tokens + split.tile_tokens - 1) / split.tile_tokens, heads = blockIdx.x / tiles;
  const int64_t chunks = (split.group + split.tile_heads - 1) / split.tile_heads, kv_head = heads / chunks;
  const int64_t first_token = (tiles - 1 - blockIdx.x % tiles) * split.tile_tokens;  // tokens with the most keys come first
  const auto token_of = [&](int row) { return first_token + row / split.tile_heads; };
  const auto head_of = [&](int row) {
    const int64_t inside = heads % chunks * split.tile_heads + row % split.tile_heads;
    return inside < split.group ? kv_head * split.group + inside : -1;
  };
  const int row = int(threadIdx.x) / kPart, part = int(threadIdx.x) % kPart;  // of the softmax
  const int64_t end_token = min(min(first_token + split.tile_tokens, split.tokens), int64_t(requests.starts[requests.count]));
  // A tile may have tokens of several requests.
  for (int64_t from = first_token; from < end_token;) {
    const int64_t b = requests.of(from), to = min(end_token, int64_t(requests.starts[b + 1]));
    const int64_t count = requests.starts[b + 1] - requests.starts[b];
    const int64_t length = keys.table ? requests.lengths[b] : keys.starts[b + 1] - keys.starts[b];
    const auto position_of = [&](int64_t t) { return length - count + (t - requests.starts[b]); };
    const auto first_seen = [&](int64_t t) { return rule.window > 0 ? max(position_of(t) - rule.window + 1, int64_t(0)) : 0; };
    const auto last_seen = [&](int64_t t) {
      if (rule.causal) return position_of(t);
      return rule.window > 0 ? min(position_of(t) + rule.window - 1, length - 1) : length - 1;
    };
    const auto here = [&](int r) {
      return r < split.tile_tokens * split.tile_heads && token_of(r) >= from && token_of(r) < to && head_of(r) >= 0;
    };
    const int64_t first = first_seen(from), last = last_seen(to - 1);
    __syncthreads();
    for (int r = warp; r < kRows; r += kWarps)
      for (int d = lane; d < deep; d += 32) q[r * q_step + d] = here(r) && d < depth ? queries.at(token_of(r), head_of(r), d) : 0;
    double most = here(row) ? load_or(sinks, head_of(row), -INFINITY) : -INFINITY, total = here(row) && sinks.data ? 1 : 0;
    double sum[kAcross][4] = {};
    for (int64_t start = first / kKeys * kKeys; start <= last; start += kKeys) {
      const auto load = [&](const Ref& cache, int columns, int padded) {
        return load_rows<kKeys>(kv, step, keys, cache, b, kv_head, start, first, last, columns, padded);
      };
      __syncthreads();
      load(keys.k, depth, deep);
      if (threadIdx.x == 0) odd = 0;
      __syncthreads();
      multiply_keys<kHigh, kKeys>(scores, q, q_step, kv, step, deep);
      __syncthreads();
      if (!load(keys.v, width, wide)) atomicMax(&odd, 1);
      const int64_t t = token_of(row);
      const double shrink = online_softmax<kPart, kKeys / kPart>(scores + row * kScores + part, most, total, [&](double product, int m) {
        const int64_t position = start + part + m;
        const bool sees = here(row) && position >= first_seen(t) && position <= last_seen(t) && !rule.hides(b, t, length, position);
        return sees ? rule.score(product, head_of(row), position - position_of(t)) : -INFINITY;
      });
      if (part == 0) shrinks[row] = shrink;
      __syncthreads();
      add_values<kHigh, kKeys>(sum, scores, shrinks, kv, step, wide, odd);
    }
    if (part == 0) totals[row] = total;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kAcross; ++i) {
      const int f = warp + i * kWarps, high = f % kHigh * 16, across = f / kHigh * 8;
      for (int e = 0; e < 4; ++e) {
        const int r = high + g + e / 2 * 8, column = across + 2 * t4 + e % 2;
        if (column >= width || !here(r)) continue;
        // A query without a visible key gives 0.
        store(out, out.at(token_of(r), head_of(r)) + column, totals[r] == 0 ? 0 : sum[i][e] / totals[r]);
      }
    }
    from = to;
  }
}

template <int kRows, int kKeys>
int64_t shared_bytes(int64_t depth, int64_t width) {
  return (int64_t{kRows} * step_of(up(depth, 4)) + int64_t{kKeys} * step_of(std::max(up(depth, 4), up(width, 8))) + kRows * (kKeys + 4)) * 8;
}
constexpr int64_t kWidth = 128, kWidthMost = 512, kSharedMost = 224 << 10;
bool narrow(int64_t depth, int64_t width) { return depth <= kWidth && width <= kWidth; }
void need_room(int64_t depth, int64_t width) {
  if (width > kWidthMost || (!narrow(depth, width) && shared_bytes<16, 16>(depth, width) > kSharedMost))
    throw fk::unsupported{"heads of more channels than shared memory holds"};
}

template <int kRows, int kKeys, int kAcross>
void attend_tiles(const Queries& queries, const Keys& keys, const Ref& sinks, const Ref& out, const Requests& requests, const Rule& rule,
                  Split split, const fk_ctx& ctx) {
  split.tile_heads = std::min<int64_t>(split.group, kRows);
  // A request with one token has a tile of its own.
  split.tile_tokens = std::clamp<int64_t>(split.tokens / std::max<int64_t>(requests.count, 1), 1, kRows / split.tile_heads);
  const size_t shared = size_t(shared_bytes<kRows, kKeys>(queries.width + queries.width_pe, split.width));
  const auto kernel = attend<kRows, kKeys, kAcross>;
  if (const auto status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(kSharedMost)); status != cudaSuccess)
    throw std::runtime_error(std::string("shared memory: ") + cudaGetErrorString(status));
  const auto chunks = (split.group + split.tile_heads - 1) / split.tile_heads;
  // All tiles are in x, in which a grid has 2^31 - 1 blocks. In y it has 65,535, and there may be
  // more heads.
  const auto tiles = blocks(split.tokens, int(split.tile_tokens)) * (split.heads / split.group * chunks);
  launch(ctx, kernel, unsigned(tiles), kTileThreads, shared, queries, keys, sinks, out, requests, rule, split);
}
// `heads` of a query, `group` of them to a head of keys; values have `width` channels.
void attend_all(const Queries& queries, const Keys& keys, const Ref& sinks, const Ref& out, const Requests& requests, const Rule& rule,
                int64_t tokens, int64_t heads, int64_t group, int64_t width, const fk_ctx& ctx) {
  if (!tokens) return;
  const Split split{tokens, heads, group, 0, 0, width};
  if (narrow(queries.width + queries.width_pe, width)) attend_tiles<32, 32, 4>(queries, keys, sinks, out, requests, rule, split, ctx);
  else attend_tiles<16, 16, 8>(queries, keys, sinks, out, requests, rule, split, ctx);
}
void need_groups(int64_t heads, int64_t kv_heads) {
  if (heads % kv_heads) throw fk::unsupported{"num_heads is not a multiple of num_kv_heads"};
}

struct PagedAttention : Plain<fk::paged_attention> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    need_groups(init.num_heads, init.num_kv_heads);
    need_room(init.head_dim, init.head_dim);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Keys keys{ref(a.k_cache), ref(a.v_cache), fk::data<int32_t>(a.block_tables), nullptr, a.block_tables->shape[1], init.page_size};
    const Requests requests{fk::data<int32_t>(a.cu_seqlens), fk::data<int32_t>(a.seq_lens), a.seq_lens->shape[0]};
    attend_all(Queries{ref(a.q), Ref{}, init.head_dim, 0}, keys, ref(weights.sinks), ref(a.out), requests,
               Rule{init.scale, init.softcap, init.window, init.causal != 0, nullptr, nullptr, 0, fk::data<float>(weights.alibi_slopes)},
               a.q->shape[0], init.num_heads,
               init.num_heads / init.num_kv_heads, init.head_dim, ctx);
  }
};
struct AttentionVarlen : Plain<fk::attention_varlen> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights& weights, const op::forward&, fk_need&) {
    need_groups(init.num_heads, init.num_kv_heads);
    need_room(init.head_dim, init.head_dim);
    const fk_in* table = weights.distance_bias.or_null;
    if (table && table->shape[0] % 2 == 0) throw fk::unsupported{"distance_bias: an odd number of rows"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const fk_in* table = weights.distance_bias.or_null;
    const Keys keys{ref(a.k), ref(a.v), nullptr, fk::data<int32_t>(a.cu_seqlens_k), 0, 0};
    const Requests requests{fk::data<int32_t>(a.cu_seqlens_q), nullptr, a.cu_seqlens_q->shape[0] - 1};
    attend_all(Queries{ref(a.q), Ref{}, init.head_dim, 0}, keys, Ref{}, ref(a.out), requests,
               Rule{init.scale, 0, init.window, init.causal != 0, nullptr, nullptr, 0, nullptr, fk::data<float>(weights.distance_bias),
                    table ? table->shape[0] : 0, init.num_heads},
               a.q->shape[0], init.num_heads, init.num_heads / init.num_kv_heads, init.head_dim, ctx);
  }
};
struct TreeAttention : Plain<fk::tree_attention> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    need_groups(init.num_heads, init.num_kv_heads);
    need_room(init.head_dim, init.head_dim);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Keys keys{ref(a.k_cache), ref(a.v_cache), fk::data<int32_t>(a.block_tables), nullptr, a.block_tables->shape[1], init.page_size};
    const Requests requests{fk::data<int32_t>(a.cu_seqlens), fk::data<int32_t>(a.seq_lens), a.seq_lens->shape[0]};
    attend_all(Queries{ref(a.q), Ref{}, init.head_dim, 0}, keys, Ref{}, ref(a.out), requests,
               Rule{init.scale, 0, 0, false, fk::data<int32_t>(a.tree_lens), fk::data<int32_t>(a.tree_mask), a.tree_mask->shape[1]},
               a.q->shape[0], init.num_heads, init.num_heads / init.num_kv_heads, init.head_dim, ctx);
  }
};
// All heads share one key. Its first channels are the value.
struct MlaAttention : Plain<fk::mla_attention> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    need_room(init.kv_lora_rank + init.qk_rope_head_dim, init.kv_lora_rank);
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
  // Calls add(pixel, share) for those of the four pixels which are inside.
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
// One block per query and head; the scores lie in scratch, as large as all of them.
struct BiasedAttention : Plain<fk::biased_attention> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need) {
    if (init.num_heads % init.num_kv_heads) throw fk::unsupported{"num_heads is not a multiple of num_kv_heads"};
    need.scratch = max.q->shape[0] * max.q->shape[1] * init.num_heads * max.k->shape[1] * 8;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref q = ref(a.q), k = ref(a.k), v = ref(a.v), bias = ref(a.bias), mask = ref(a.mask), factors = ref(a.head_scale), out = ref(a.out);
    const int64_t queries = a.q->shape[1], keys = a.k->shape[1], heads = init.num_heads, group = heads / init.num_kv_heads, width = init.head_dim;
    const int64_t biases = a.bias.or_null ? a.bias.or_null->shape[0] : 1, masks = a.mask.or_null ? a.mask.or_null->shape[0] : 1;
    const int64_t mask_rows = a.mask.or_null ? a.mask.or_null->shape[1] : 1;
    const double scale = init.scale;
    auto* all = static_cast<double*>(ctx.scratch);
    for_rows(a.q->shape[0] * queries * heads, ctx, [=] __device__(int64_t row) {
      const int64_t h = row % heads, m = row / heads % queries, b = row / heads / queries, g = h / group;
      double* scores = all + row * keys;
      const double factor = scale * load_or(factors, h, 1);
      double top = -INFINITY, sum = 0;
      for (int64_t j = threadIdx.x; j < keys; j += blockDim.x) {
        double dot = 0;
        for (int64_t d = 0; d < width; ++d) dot += load(q, q.at(b, m, h) + d) * load(k, k.at(b, j, g) + d);
        scores[j] = dot * factor + (bias.data ? load(bias, bias.at(b % biases, h, m) + j) : 0) +
                    (mask.data ? load(mask, mask.at(b % masks, m % mask_rows) + j) : 0);
        top = fmax(top, scores[j]);
      }
      top = block_max(top);
      for (int64_t j = threadIdx.x; j < keys; j += blockDim.x) sum += scores[j] = top == -INFINITY ? 0 : exp(scores[j] - top);
      sum = block_sum(sum);
      for (int64_t d = threadIdx.x; d < width; d += blockDim.x) {
        double value = 0;
        for (int64_t j = 0; j < keys; ++j) value += scores[j] * load(v, v.at(b, j, g) + d);
        store(out, out.at(b, m, h) + d, sum > 0 ? value / sum : 0);
      }
    });
  }
};
FK_OP(biased_attention, BiasedAttention);
FK_OP(paged_attention, PagedAttention);
FK_OP(attention_varlen, AttentionVarlen);
FK_OP(tree_attention, TreeAttention);
FK_OP(mla_attention, MlaAttention);
FK_OP(ms_deform_attn, DeformableAttention);

}  // namespace
