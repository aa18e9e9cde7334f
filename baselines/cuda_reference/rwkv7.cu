// SPDX-License-Identifier: Apache-2.0
// token_shift_mix: one thread per channel of a request. rwkv7_gates and rwkv7_output: one warp per head of a token.
#include "common.cuh"
#include "fk/ops/rwkv7_gates.h"
#include "fk/ops/rwkv7_output.h"
#include "fk/ops/token_shift_mix.h"

namespace {
using namespace fkr;
constexpr int kWarp = 32;
__device__ double sigmoid(double x) { return 1 / (1 + exp(-x)); }

struct TokenShiftMix : Plain<fk::token_shift_mix> {
  using Plain::Plain;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const Ref x = ref(args.x), mu = ref(weights.mu), state = ref(args.shift_state), out = ref(args.out);
    const int32_t *starts = fk::data<int32_t>(args.cu_seqlens), *slots = fk::data<int32_t>(args.state_slots);
    const int32_t* has_state = fk::data<int32_t>(args.has_initial_state);
    const int64_t channels = init.channels, mixtures = init.mixtures;
    for_each(args.state_slots->shape[0] * channels, ctx, [=] __device__(int64_t i) {
      const int64_t b = i / channels, c = i % channels;
      if (starts[b] == starts[b + 1]) return;
      const int64_t at = state.at(slots[b]) + c;
      double before = has_state && !has_state[b] ? 0 : load(state, at);
      for (int64_t t = starts[b]; t < starts[b + 1]; ++t) {
        const double v = load(x, x.at(t) + c);
        for (int64_t m = 0; m < mixtures; ++m)
          store(out, out.at(m, t) + c, v + (before - v) * load(mu, m * channels + c));
        before = v;
      }
      store(state, at, before);
    });
  }
};
struct Rwkv7Gates : Plain<fk::rwkv7_gates> {
  using Plain::Plain;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const Ref w = ref(args.w), k = ref(args.k), a = ref(args.a), v = ref(args.v), v_first = ref(args.v_first), v_gate = ref(args.v_gate);
    const Ref decay = ref(args.decay), key = ref(args.key), remove = ref(args.remove), add = ref(args.add);
    const Ref k_k = ref(weights.k_k), k_a = ref(weights.k_a);
    const int64_t heads = init.num_heads, width = init.head_dim;
    for_rows(args.k->shape[0] * heads, kWarp, 0, ctx, [=] __device__(int64_t row) {
      const int64_t at = row * width, of_head = row % heads * width;
      double squares = 0;
      for (int64_t d = threadIdx.x; d < width; d += kWarp) {
        const double kk = load(k, at + d) * load(k_k, of_head + d);
        squares += kk * kk;
      }
      const double length = fmax(sqrt(block_sum(squares)), 1e-12);
      for (int64_t d = threadIdx.x; d < width; d += kWarp) {
        const double s = sigmoid(load(a, at + d)), own = load(k, at + d), kk = own * load(k_k, of_head + d) / length;
        store(decay, at + d, -exp(-0.5) * sigmoid(load(w, at + d)));
        store(key, at + d, own * (1 + (s - 1) * load(k_a, of_head + d)));
        store(remove, at + d, -kk);
        store(add, at + d, kk * s);
        if (!v.data) continue;
        const double value = load(v, at + d);
        store(v, at + d, value + (load(v_first, at + d) - value) * sigmoid(load(v_gate, at + d)));
      }
    });
  }
};
struct Rwkv7Output : Plain<fk::rwkv7_output> {
  using Plain::Plain;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const Ref o = ref(args.o), r = ref(args.r), k = ref(args.k), v = ref(args.v), g = ref(args.g), out = ref(args.out);
    const Ref weight = ref(weights.weight), bias = ref(weights.bias), r_k = ref(weights.r_k);
    const int64_t heads = init.num_heads, width = init.head_dim;
    const double eps = init.eps;
    for_rows(args.o->shape[0] * heads, kWarp, 0, ctx, [=] __device__(int64_t row) {
      const int64_t at = row * width, of_head = row % heads * width;
      double sum = 0, own = 0, squares = 0;
      for (int64_t d = threadIdx.x; d < width; d += kWarp) {
        sum += load(o, at + d);
        own += load(r, at + d) * load(k, at + d) * load(r_k, of_head + d);
      }
      const double mean = block_sum(sum) / double(width);
      own = block_sum(own);
      for (int64_t d = threadIdx.x; d < width; d += kWarp) squares += (load(o, at + d) - mean) * (load(o, at + d) - mean);
      const double scale = 1 / sqrt(block_sum(squares) / double(width) + eps);
      for (int64_t d = threadIdx.x; d < width; d += kWarp) {
        const double y = (load(o, at + d) - mean) * scale * load(weight, of_head + d) + load(bias, of_head + d);
        store(out, at + d, (y + own * load(v, at + d)) * load(g, at + d));
      }
    });
  }
};
FK_OP(token_shift_mix, TokenShiftMix);
FK_OP(rwkv7_gates, Rwkv7Gates);
FK_OP(rwkv7_output, Rwkv7Output);

}  // namespace
