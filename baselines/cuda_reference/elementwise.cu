// SPDX-License-Identifier: Apache-2.0
// Ops with one thread per element: activations, add, row moves, embedding, rotation, cache append, moe_sum.
#include "common.cuh"
#include "fk/ops/add.h"
#include "fk/ops/embedding.h"
#include "fk/ops/gather_rows.h"
#include "fk/ops/gelu.h"
#include "fk/ops/kv_cache_append.h"
#include "fk/ops/moe_sum.h"
#include "fk/ops/rotary_embedding.h"
#include "fk/ops/silu_and_mul.h"

namespace {
using namespace fkr;
constexpr int kThreads = 256;

// Calls body(i) for i < n, one thread each.
template <class Body>
__global__ void each(int64_t n, Body body) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) body(i);
}
template <class Body>
void run(int64_t n, const fk_ctx& ctx, Body body) {
  if (!n) return;
  each<<<blocks(n, kThreads), kThreads, 0, stream(ctx)>>>(n, body);
  launched();
}

struct SiluAndMul : Plain<fk::silu_and_mul> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const int64_t width = init.size;
    run(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t row = i / width * 2 * width, c = i % width;
      const double gate = load(x, row + c), up = load(x, row + width + c);
      store(out, i, gate / (1 + exp(-gate)) * up);
    });
  }
};
struct Gelu : Plain<fk::gelu> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const bool tanh_form = init.approximate == FK_GELU_APPROXIMATE_TANH;
    run(a.x->shape[0] * init.size, ctx, [=] __device__(int64_t i) {
      const double v = load(x, i);
      const double inner = 0.79788456080286535588 * (v + 0.044715 * v * v * v);
      store(out, i, tanh_form ? 0.5 * v * (1 + tanh(inner)) : 0.5 * v * erfc(-v * 0.70710678118654752440));
    });
  }
};
struct Add : Plain<fk::add> {
  using Plain::Plain;
  void forward(const op::forward& f, const fk_ctx& ctx) {
    const Ref a = ref(f.a), b = ref(f.b), out = ref(f.out);
    run(f.a->shape[0] * init.size, ctx, [=] __device__(int64_t i) { store(out, i, load(a, i) + load(b, i)); });
  }
};
struct GatherRows : Plain<fk::gather_rows> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const auto* rows = fk::data<int32_t>(a.rows);
    const int64_t width = init.size;
    run(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) { store(out, i, load(x, rows[i / width] * width + i % width)); });
  }
};
struct Embedding : Plain<fk::embedding> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref table = ref(weights.table), out = ref(a.out);
    const auto* ids = fk::data<int64_t>(a.ids);
    const int64_t width = init.embedding_dim;
    run(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) { store(out, i, load(table, ids[i / width] * width + i % width)); });
  }
};
struct MoeSum : Plain<fk::moe_sum> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const auto* weight = fk::data<float>(a.topk_weights);
    const int64_t width = init.size, chosen = a.topk_weights->shape[1];
    run(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t t = i / width, c = i % width;
      double sum = 0;
      for (int64_t k = 0; k < chosen; ++k) sum += double(weight[t * chosen + k]) * load(x, (t * chosen + k) * width + c);
      store(out, i, sum);
    });
  }
};
struct RotaryEmbedding : Plain<fk::rotary_embedding> {
  using Plain::Plain;
  void rotate(const fk_inout* view, const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(view), table = ref(weights.cos_sin_cache);
    const auto* positions = fk::data<int64_t>(a.positions);
    const int64_t heads = view->shape[1], half = init.rotary_dim / 2, rotary = init.rotary_dim;
    const bool interleaved = init.interleaved != 0;
    run(view->shape[0] * heads * half, ctx, [=] __device__(int64_t i) {
      const int64_t pair = i % half, head = i / half % heads, t = i / half / heads;
      const double cosine = load(table, positions[t] * rotary + pair), sine = load(table, positions[t] * rotary + half + pair);
      const int64_t base = t * x.stride[0] + head * x.stride[1];
      const int64_t first = base + (interleaved ? 2 * pair : pair), second = base + (interleaved ? 2 * pair + 1 : pair + half);
      const double u = load(x, first), v = load(x, second);
      store(x, first, u * cosine - v * sine);
      store(x, second, v * cosine + u * sine);
    });
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    rotate(a.q, a, ctx);
    rotate(a.k, a, ctx);
  }
};
struct KvCacheAppend : Plain<fk::kv_cache_append> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref k = ref(a.k), v = ref(a.v), k_cache = ref(a.k_cache), v_cache = ref(a.v_cache);
    const auto* slots = fk::data<int64_t>(a.slot_mapping);
    const int64_t heads = init.num_kv_heads, width = init.head_dim, page = init.page_size;
    run(a.k->shape[0] * heads * width, ctx, [=] __device__(int64_t i) {
      const int64_t d = i % width, head = i / width % heads, t = i / width / heads, slot = slots[t];
      if (slot < 0) return;
      const auto in = [&](const Ref& r) { return load(r, t * r.stride[0] + head * r.stride[1] + d); };
      const auto at = [&](const Ref& r) { return slot / page * r.stride[0] + slot % page * r.stride[1] + head * r.stride[2] + d; };
      store(k_cache, at(k_cache), in(k));
      store(v_cache, at(v_cache), in(v));
    });
  }
};
FK_OP(silu_and_mul, SiluAndMul);
FK_OP(gelu, Gelu);
FK_OP(add, Add);
FK_OP(gather_rows, GatherRows);
FK_OP(embedding, Embedding);
FK_OP(moe_sum, MoeSum);
FK_OP(rotary_embedding, RotaryEmbedding);
FK_OP(kv_cache_append, KvCacheAppend);

}  // namespace
