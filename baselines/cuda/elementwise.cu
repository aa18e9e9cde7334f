// SPDX-License-Identifier: Apache-2.0
// Elementwise ops and copies of rows, sixteen bytes per thread: add, embedding, gather_rows,
// kv_cache_append, rotary_embedding.
#include "fk/ops/add.h"
#include "fk/ops/embedding.h"
#include "fk/ops/gather_rows.h"
#include "fk/ops/kv_cache_append.h"
#include "fk/ops/rotary_embedding.h"
#include "parts/op.cuh"
#include "parts/rope.cuh"

namespace {
using namespace fkc;

template <class T> __global__ void add(const T* a, const T* b, T* out, int64_t vectors) {
  wait_for_inputs();
  const int64_t i = item_of_thread();
  if (i >= vectors) return;
  const Vec8<T> p = load8(a + i * 8), q = load8(b + i * 8);
  Vec8<T> o;
#pragma unroll
  for (int k = 0; k < 8; ++k) o.at[k] = from_float<T>(to_float(p.at[k]) + to_float(q.at[k]));
  store8(out + i * 8, o);
}

// Copies row `ids[t]` of a table. A row has so many vectors V.
template <class V, class I> __global__ void copy_rows(const V* table, const I* ids, V* out, int64_t rows, int vectors) {
  wait_for_inputs();
  const int64_t i = item_of_thread(), row = i / vectors;
  if (row < rows) out[i] = table[int64_t(ids[row]) * vectors + i % vectors];
}

// One side (keys or values) of an append; strides in elements.
struct Side {
  const uint16_t* from;
  uint16_t* cache;
  int64_t token, head, page, slot, cache_head;
};
__global__ void append(Side k, Side v, const int64_t* slots, int64_t tokens, int heads, int vectors, int64_t page_size) {
  wait_for_inputs();
  const int64_t i = item_of_thread(), t = i / (heads * vectors);
  if (t >= tokens || slots[t] < 0) return;
  const int head = int(i / vectors % heads), column = int(i % vectors) * 8;
  const int64_t page = slots[t] / page_size, slot = slots[t] % page_size;
  const auto copy = [&](const Side& s) {
    *reinterpret_cast<uint4*>(s.cache + page * s.page + slot * s.slot + head * s.cache_head + column) =
        *reinterpret_cast<const uint4*>(s.from + t * s.token + head * s.head + column);
  };
  copy(k);
  copy(v);
}

// A thread rotates eight pairs of a token in up to kTurned heads, `step` apart. The pairs are two
// vectors of the halves, or two neighbouring vectors if interleaved. The thread reads all of them
// before it writes the first one, so that enough loads are in flight.
constexpr int kTurned = 2;
template <class T, bool kInterleaved>
__global__ void __launch_bounds__(kItemThreads, 5) rotate(T* q, T* k, const float* table, const int64_t* positions, int tokens, int heads, int kv_heads, int rotary,
                       int64_t q_token, int64_t q_head, int64_t k_token, int64_t k_head) {
  wait_for_inputs();
  const int parts = rotary / 16, all = heads + kv_heads, step = (all + kTurned - 1) / kTurned;
  const int item = int(blockIdx.x) * int(blockDim.x) + int(threadIdx.x), part = item % parts, head = item / parts % step, t = item / parts / step;
  if (t >= tokens) return;
  const int other = kInterleaved ? 8 : rotary / 2;  // elements from the first vector to the second
  T* x[kTurned];
  Vec8<T> a[kTurned], b[kTurned];
#pragma unroll
  for (int i = 0; i < kTurned; ++i) {
    const int h = head + i * step;
    x[i] = (h < heads ? q + t * q_token + h * q_head : k + t * k_token + (h - heads) * k_head) + part * (kInterleaved ? 16 : 8);
    if (h < all) a[i] = load8(x[i]), b[i] = load8(x[i] + other);
  }
  const Angles angles(table + positions[t] * rotary + part * 8, rotary / 2);
#pragma unroll
  for (int i = 0; i < kTurned; ++i) {
    if (head + i * step >= all) break;
    rotate_pairs<kInterleaved>(a[i], b[i], angles);
    store8(x[i], a[i]);
    store8(x[i] + other, b[i]);
  }
}

struct Add : Base<fk::add> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.a);
    need(init.size % 8 == 0, "size: a multiple of 8 only");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t vectors = fk_numel(a.a) / 8;
    if (!vectors) return;
    dispatch(a.a, [&](auto type) {
      using T = decltype(type);
      launch(add<T>, blocks_of(vectors), kItemThreads, 0, ctx, fk::data<T>(a.a), fk::data<T>(a.b), fk::data<T>(a.out), vectors);
    });
  }
};
struct Embedding : Base<fk::embedding> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need_16bit(max.out ? fk_as_in(max.out) : nullptr);
    need(FK_DTYPE(weights.table) == FK_DTYPE(max.out), "out: the dtype of the table only");
    need(init.embedding_dim % 8 == 0, "embedding_dim: a multiple of 8 only");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.ids->shape[0], vectors = init.embedding_dim / 8;
    if (!rows) return;
    launch(copy_rows<uint4, int64_t>, blocks_of(rows * vectors), kItemThreads, 0, ctx, fk::data<uint4>(weights.table), fk::data<int64_t>(a.ids), fk::data<uint4>(a.out),
                                                                  rows, int(vectors));
  }
};
struct GatherRows : Base<fk::gather_rows> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) { need_16bit(max.x); }
  // Rows which are no whole vectors go by elements.
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (init.size % 8) copy<uint16_t>(a, init.size, ctx);
    else copy<uint4>(a, init.size / 8, ctx);
  }

 private:
  template <class V> void copy(const op::forward& a, int64_t vectors, const fk_ctx& ctx) const {
    const int64_t rows = a.rows->shape[0];
    if (!rows) return;
    launch(copy_rows<V, int32_t>, blocks_of(rows * vectors), kItemThreads, 0, ctx, fk::data<V>(a.x), fk::data<int32_t>(a.rows), fk::data<V>(a.out), rows, int(vectors));
  }
};
struct KvCacheAppend : Base<fk::kv_cache_append> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.k);
    need(FK_DTYPE(max.k_cache) == FK_DTYPE(max.k) && FK_DTYPE(max.v) == FK_DTYPE(max.k), "caches: the dtype of k only");
    need(init.head_dim % 8 == 0, "head_dim: a multiple of 8 only");
    for (const fk_in* view : {max.k, max.v, fk_as_in(max.k_cache), fk_as_in(max.v_cache)}) need_aligned(view);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t tokens = a.k->shape[0], vectors = init.head_dim / 8;
    if (!tokens) return;
    const auto side = [](const fk_in* from, const fk_out* cache) {
      return Side{fk::data<uint16_t>(from), fk::data<uint16_t>(cache), from->strides[0], from->strides[1],
                  cache->strides[0],        cache->strides[1],         cache->strides[2]};
    };
    launch(append, blocks_of(tokens * init.num_kv_heads * vectors), kItemThreads, 0, ctx, side(a.k, a.k_cache), side(a.v, a.v_cache),
                                                                                    fk::data<int64_t>(a.slot_mapping), tokens,
                                                                                    int(init.num_kv_heads), int(vectors), init.page_size);
  }
};
struct RotaryEmbedding : Base<fk::rotary_embedding> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(fk_as_in(max.q));
    need(FK_DTYPE(max.k) == FK_DTYPE(max.q), "k: the dtype of q only");
    need(init.rotary_dim % 16 == 0, "rotary_dim: a multiple of 16 only");
    need_aligned(fk_as_in(max.q));
    need_aligned(fk_as_in(max.k));
    need(max.q->shape[0] * (init.num_heads + init.num_kv_heads) * (init.rotary_dim / 16) < int64_t{1} << 31, "tokens: fewer for so many heads");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t tokens = a.q->shape[0];
    if (!tokens) return;
    const int64_t items = tokens * cdiv(init.num_heads + init.num_kv_heads, kTurned) * (init.rotary_dim / 16);
    dispatch(fk_as_in(a.q), [&](auto type) {
      using T = decltype(type);
      launch(init.interleaved ? rotate<T, true> : rotate<T, false>, blocks_of(items), kItemThreads, 0, ctx,
          fk::data<T>(a.q), fk::data<T>(a.k), fk::data<float>(weights.cos_sin_cache), fk::data<int64_t>(a.positions), int(tokens),
          int(init.num_heads), int(init.num_kv_heads), int(init.rotary_dim), a.q->strides[0], a.q->strides[1], a.k->strides[0],
          a.k->strides[1]);
    });
  }
};
FK_OP(add, Add);
FK_OP(embedding, Embedding);
FK_OP(gather_rows, GatherRows);
FK_OP(kv_cache_append, KvCacheAppend);
FK_OP(rotary_embedding, RotaryEmbedding);

}  // namespace
