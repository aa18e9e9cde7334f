// SPDX-License-Identifier: Apache-2.0
// Copies, sixteen bytes per thread: scatter_rows, concat, kv_cache_move, mla_cache_append,
// transpose.
#include "fk/ops/concat.h"
#include "fk/ops/kv_cache_move.h"
#include "fk/ops/mla_cache_append.h"
#include "fk/ops/scatter_rows.h"
#include "fk/ops/transpose.h"
#include "parts/op.cuh"

namespace {
using namespace fkc;

int64_t bytes_of(const fk_in* view) { return view->dtype.bits / 8; }
// The number of vectors of 16 bytes, or a refusal.
int64_t vectors_of(int64_t bytes) {
  need(bytes % 16 == 0, "rows: multiples of 16 bytes only");
  return bytes / 16;
}

__global__ void __launch_bounds__(kItemThreads) scatter(const uint4* x, const int32_t* rows, uint4* out, int64_t count, int vectors) {
  wait_for_inputs();
  const int64_t i = item_of_thread(), row = i / vectors;
  if (row < count) out[rows[row] * int64_t(vectors) + i % vectors] = x[i];
}

// Copies the rows of a part to rows which are `step` vectors apart.
__global__ void __launch_bounds__(kItemThreads) place_part(const uint4* part, uint4* out, int64_t count, int vectors, int64_t step) {
  wait_for_inputs();
  const int64_t i = item_of_thread(), row = i / vectors;
  if (row < count) out[row * step + i % vectors] = part[i];
}

// The place of a slot's row of a head. Strides are in elements of 16 bits.
struct Cache {
  uint16_t* data;
  int64_t page, slot, head;
  __device__ uint4* at(int64_t index, int64_t page_size, int of_head, int vector) const {
    return reinterpret_cast<uint4*>(data + index / page_size * page + index % page_size * slot + of_head * head + vector * 8);
  }
};
Cache cache_of(const fk_inout* view) {
  return {fk::data<uint16_t>(view), view->strides[0], view->strides[1], view->ndim > 3 ? view->strides[2] : 0};
}
// kOut: from the caches into `moved`, [2, T, G, D]; else back, to other slots. There are two
// launches, because a slot may be both source and target.
template <bool kOut>
__global__ void __launch_bounds__(kItemThreads) move(Cache k, Cache v, const int64_t* slots, const int64_t* targets, uint4* moved, int64_t tokens, int heads,
                                                 int vectors, int64_t page_size) {
  wait_for_inputs();
  const int64_t i = item_of_thread(), t = i / vectors / heads, count = tokens * heads * vectors;
  if (t >= tokens || targets[t] < 0) return;
  const int head = int(i / vectors % heads), vector = int(i % vectors);
  uint4* const in_k = k.at(slots[t], page_size, head, vector);
  uint4* const in_v = v.at(slots[t], page_size, head, vector);
  if (kOut) moved[i] = *in_k, moved[count + i] = *in_v;
  else *in_k = moved[i], *in_v = moved[count + i];
}

// Appends a token's latent, then its rotated key. vectors: of 16 bytes. Strides are in elements.
__global__ void __launch_bounds__(kItemThreads) append_latent(const uint16_t* latent, const uint16_t* key, Cache cache, const int64_t* slots, int64_t tokens,
                                                          int64_t latent_token, int64_t key_token, int latents, int vectors, int64_t page_size) {
  wait_for_inputs();
  const int64_t i = item_of_thread(), t = i / vectors;
  if (t >= tokens || slots[t] < 0) return;
  const int vector = int(i % vectors);
  const uint16_t* const from = vector < latents ? latent + t * latent_token + vector * 8 : key + t * key_token + (vector - latents) * 8;
  *cache.at(slots[t], page_size, 0, vector) = *reinterpret_cast<const uint4*>(from);
}

// A block transposes a tile of 32 by 32 through shared memory, so that both reads and writes are
// contiguous.
constexpr int kTile = 32;
template <class T, class O> __global__ void __launch_bounds__(kItemThreads) transpose(const T* x, O* out, int channels, int positions, int64_t tiles) {
  __shared__ float tile[kTile][kTile + 1];
  wait_for_inputs();
  const int across = (positions + kTile - 1) / kTile, down = (channels + kTile - 1) / kTile;
  const int lane = int(threadIdx.x) % kTile, first = int(threadIdx.x) / kTile;
  for (int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
    const int64_t image = i / across / down * channels * positions;
    const int c0 = int(i / across % down) * kTile, t0 = int(i % across) * kTile;
    for (int r = first; r < kTile; r += kItemThreads / kTile)
      if (c0 + r < channels && t0 + lane < positions) tile[r][lane] = to_float(x[image + int64_t(c0 + r) * positions + t0 + lane]);
    __syncthreads();
    for (int r = first; r < kTile; r += kItemThreads / kTile)
      if (t0 + r < positions && c0 + lane < channels) out[image + int64_t(t0 + r) * channels + c0 + lane] = from_float<O>(tile[lane][r]);
    __syncthreads();
  }
}

struct ScatterRows : Base<fk::scatter_rows> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) { vectors_of(init.size * bytes_of(max.x)); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.rows->shape[0], vectors = vectors_of(init.size * bytes_of(a.x));
    if (!rows) return;
    launch(scatter, blocks_of(rows * vectors), kItemThreads, 0, ctx, fk::data<uint4>(a.x), fk::data<int32_t>(a.rows), fk::data<uint4>(a.out), rows, int(vectors));
  }
};
struct Concat : Base<fk::concat> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    vectors_of(init.size * bytes_of(fk_as_in(max.out)));
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.out->shape[0], vectors = vectors_of(init.size * bytes_of(fk_as_in(a.out)));
    if (!rows) return;
    for (int64_t n = 0; n < init.num_parts; ++n)
      launch(place_part, blocks_of(rows * vectors), kItemThreads, 0, ctx, fk::data<uint4>(a.x->at[n]), fk::data<uint4>(a.out) + n * vectors, rows, int(vectors),
             init.num_parts * vectors);
  }
};
struct KvCacheMove : Base<fk::kv_cache_move> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need_) {
    need_16bit(fk_as_in(max.k_cache));
    need(init.head_dim % 8 == 0, "head_dim: a multiple of 8 only");
    need_aligned(fk_as_in(max.k_cache));
    need_aligned(fk_as_in(max.v_cache));
    need_.scratch = max.to_slots->shape[0] * init.num_kv_heads * init.head_dim * 4;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t tokens = a.to_slots->shape[0], vectors = init.head_dim / 8;
    if (!tokens) return;
    const auto go = [&](auto kernel, const fk_in* slots) {
      launch(kernel, blocks_of(tokens * init.num_kv_heads * vectors), kItemThreads, 0, ctx, cache_of(a.k_cache), cache_of(a.v_cache), fk::data<int64_t>(slots),
             fk::data<int64_t>(a.to_slots), static_cast<uint4*>(ctx.scratch), tokens, int(init.num_kv_heads), int(vectors), init.page_size);
    };
    go(move<true>, a.from_slots);
    go(move<false>, a.to_slots);
  }
};
struct MlaCacheAppend : Base<fk::mla_cache_append> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.kv_c);
    need(FK_DTYPE(max.kv_cache) == FK_DTYPE(max.kv_c), "kv_cache: the dtype of kv_c only");
    need(init.kv_lora_rank % 8 == 0 && init.qk_rope_head_dim % 8 == 0, "kv_lora_rank and qk_rope_head_dim: multiples of 8 only");
    for (const fk_in* view : {max.kv_c, max.k_pe, fk_as_in(max.kv_cache)}) need_aligned(view);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t tokens = a.kv_c->shape[0], latents = init.kv_lora_rank / 8, vectors = latents + init.qk_rope_head_dim / 8;
    if (!tokens) return;
    launch(append_latent, blocks_of(tokens * vectors), kItemThreads, 0, ctx, fk::data<uint16_t>(a.kv_c), fk::data<uint16_t>(a.k_pe), cache_of(a.kv_cache),
           fk::data<int64_t>(a.slot_mapping), tokens, a.kv_c->strides[0], a.k_pe->strides[0], int(latents), int(vectors), init.page_size);
  }
};
struct Transpose : Base<fk::transpose> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need(max.x->shape[1] < int64_t{1} << 30 && max.x->shape[2] < int64_t{1} << 30, "an image: fewer than 2^30 channels and positions");
    for (const fk_in* view : {max.x, fk_as_in(max.out)})
      if (FK_DTYPE(view) != FK_F32) need_16bit(view);
  }
  template <class T> void to(const op::forward& a, const fk_ctx& ctx) {
    const int64_t channels = a.x->shape[1], positions = a.x->shape[2];
    const int64_t tiles = a.x->shape[0] * cdiv(channels, kTile) * cdiv(positions, kTile);
    if (!tiles) return;
    const auto go = [&](auto kernel, auto* out) {
      launch(kernel, unsigned(std::min<int64_t>(tiles, 1 << 20)), kItemThreads, 0, ctx, fk::data<T>(a.x), out, int(channels), int(positions), tiles);
    };
    const int32_t dtype = FK_DTYPE(a.out);
    if (dtype == FK_F32) go(transpose<T, float>, fk::data<float>(a.out));
    else if (dtype == FK_BF16) go(transpose<T, __nv_bfloat16>, fk::data<__nv_bfloat16>(a.out));
    else go(transpose<T, __half>, fk::data<__half>(a.out));
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (FK_DTYPE(a.x) == FK_F32) to<float>(a, ctx);
    else dispatch(a.x, [&](auto type) { to<decltype(type)>(a, ctx); });
  }
};
FK_OP(scatter_rows, ScatterRows);
FK_OP(concat, Concat);
FK_OP(kv_cache_move, KvCacheMove);
FK_OP(mla_cache_append, MlaCacheAppend);
FK_OP(transpose, Transpose);

}  // namespace
