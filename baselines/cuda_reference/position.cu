// SPDX-License-Identifier: Apache-2.0
// rotary_embedding: one thread per pair of channels, in place.
#include "common.cuh"
#include "fk/ops/rotary_embedding.h"

namespace {
using namespace fkr;

struct RotaryEmbedding : Plain<fk::rotary_embedding> {
  using Plain::Plain;
  void rotate(const fk_inout* view, const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(view), table = ref(weights.cos_sin_cache);
    const auto* positions = fk::data<int64_t>(a.positions);
    const int64_t heads = view->shape[1], half = init.rotary_dim / 2, rotary = init.rotary_dim;
    const bool interleaved = init.interleaved != 0;
    for_each(view->shape[0] * heads * half, ctx, [=] __device__(int64_t i) {
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
FK_OP(rotary_embedding, RotaryEmbedding);

}  // namespace
