// SPDX-License-Identifier: Apache-2.0
// rotary_embedding, rotary_rows: one thread per pair of channels, in place.
#include "common.cuh"
#include "fk/ops/rotary_embedding.h"
#include "fk/ops/rotary_rows.h"
#include "fk/ops/sinusoidal_embedding.h"

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
struct RotaryRows : Plain<fk::rotary_rows> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (init.rotary_dim % 2) throw fk::unsupported{"rotary_dim: odd"};
    if (init.offset + init.rotary_dim > init.head_dim) throw fk::unsupported{"rotary_dim: beyond the head"};
  }
  void turn(const fk_inout* view, const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(view), cos = ref(a.cos), sin = ref(a.sin);
    const int64_t heads = view->shape[1], width = init.rotary_dim, half = width / 2, positions = a.cos->shape[0], offset = init.offset;
    const bool interleaved = init.interleaved != 0;
    for_each(view->shape[0] * heads * half, ctx, [=] __device__(int64_t i) {
      const int64_t pair = i % half, head = i / half % heads, t = i / half / heads;
      const int64_t first = interleaved ? 2 * pair : pair, second = first + (interleaved ? 1 : half);
      const int64_t base = t * x.stride[0] + head * x.stride[1] + offset, row = t % positions * width;
      const double u = load(x, base + first), v = load(x, base + second);
      store(x, base + first, u * load(cos, row + first) - v * load(sin, row + first));
      store(x, base + second, v * load(cos, row + second) + u * load(sin, row + second));
    });
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    turn(a.q, a, ctx);
    turn(a.k, a, ctx);
  }
};
struct SinusoidalEmbedding : Plain<fk::sinusoidal_embedding> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref t = ref(a.t), out = ref(a.out);
    const int64_t width = init.size, half = width / 2, first = init.flip_sin_to_cos ? 0 : 1;
    const double step = log(init.max_period) / (double(half) - init.downscale_freq_shift), scale = init.scale;
    for_each(a.t->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t c = i % width;
      const double angle = scale * load(t, i / width) * exp(-step * double(c % half));
      store(out, i, c >= 2 * half ? 0 : c / half == first ? cos(angle) : sin(angle));
    });
  }
};
FK_OP(sinusoidal_embedding, SinusoidalEmbedding);
FK_OP(rotary_rows, RotaryRows);
FK_OP(rotary_embedding, RotaryEmbedding);

}  // namespace
