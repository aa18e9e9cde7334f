// SPDX-License-Identifier: Apache-2.0
// rms_norm, layer_norm, qk_rms_norm, l2_norm: one block per row, statistics in double.
#include "common.cuh"
#include "fk/ops/l2_norm.h"
#include "fk/ops/layer_norm.h"
#include "fk/ops/qk_rms_norm.h"
#include "fk/ops/rms_norm.h"

namespace {
using namespace fkr;

__global__ void rms_norm_rows(Ref x, Ref residual, Ref weight, Ref out, int64_t width, double eps) {
  const int64_t row = int64_t(blockIdx.x) * width;
  double sum = 0;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    double v = load(x, row + c);
    if (residual.data) {
      v += load(residual, row + c);
      store(residual, row + c, v);
      v = load(residual, row + c);  // the norm sees the rounded sum, as the next layer does
    }
    sum += v * v;
  }
  const double scale = 1 / sqrt(block_sum(sum) / double(width) + eps);
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    const double v = residual.data ? load(residual, row + c) : load(x, row + c);
    store(out, row + c, v * scale * (weight.data ? load(weight, c) : 1));
  }
}

__global__ void layer_norm_rows(Ref x, Ref residual, Ref weight, Ref bias, Ref out, int64_t width, double eps) {
  const int64_t row = int64_t(blockIdx.x) * width;
  const auto at = [&](int64_t c) { return load(x, row + c) + (residual.data ? load(residual, row + c) : 0); };
  double sum = 0, squares = 0;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) sum += at(c);
  const double mean = block_sum(sum) / double(width);
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) squares += (at(c) - mean) * (at(c) - mean);
  const double scale = 1 / sqrt(block_sum(squares) / double(width) + eps);
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    store(out, row + c, (at(c) - mean) * scale * (weight.data ? load(weight, c) : 1) + (bias.data ? load(bias, c) : 0));
  }
}

// Block (t, h): head h of token t, in place.
__global__ void head_norm(Ref x, Ref weight, int64_t width, double eps) {
  const int64_t base = blockIdx.x * x.stride[0] + blockIdx.y * x.stride[1];
  double sum = 0;
  for (int64_t d = threadIdx.x; d < width; d += blockDim.x) sum += load(x, base + d) * load(x, base + d);
  const double scale = 1 / sqrt(block_sum(sum) / double(width) + eps);
  for (int64_t d = threadIdx.x; d < width; d += blockDim.x) store(x, base + d, load(x, base + d) * scale * load(weight, d));
}

__global__ void l2_rows(Ref x, Ref out, int64_t width, double eps) {
  const int64_t row = int64_t(blockIdx.x) * width;
  double sum = 0;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) sum += load(x, row + c) * load(x, row + c);
  const double norm = fmax(sqrt(block_sum(sum)), eps);
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) store(out, row + c, load(x, row + c) / norm);
}

struct RmsNorm : Plain<fk::rms_norm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.x->shape[0]) return;
    rms_norm_rows<<<unsigned(a.x->shape[0]), 256, 0, stream(ctx)>>>(ref(a.x), ref(a.residual), ref(weights.weight), ref(a.out), init.hidden_size, init.eps);
    launched();
  }
};
struct LayerNorm : Plain<fk::layer_norm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.x->shape[0]) return;
    layer_norm_rows<<<unsigned(a.x->shape[0]), 256, 0, stream(ctx)>>>(ref(a.x), ref(a.residual), ref(weights.weight), ref(weights.bias), ref(a.out), init.hidden_size, init.eps);
    launched();
  }
};
struct QkRmsNorm : Plain<fk::qk_rms_norm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.q->shape[0]) return;
    const auto tokens = unsigned(a.q->shape[0]);
    head_norm<<<dim3(tokens, unsigned(init.num_heads)), 128, 0, stream(ctx)>>>(ref(a.q), ref(weights.q_weight), init.head_dim, init.eps);
    head_norm<<<dim3(tokens, unsigned(init.num_kv_heads)), 128, 0, stream(ctx)>>>(ref(a.k), ref(weights.k_weight), init.head_dim, init.eps);
    launched();
  }
};
struct L2Norm : Plain<fk::l2_norm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.x->shape[0]) return;
    l2_rows<<<unsigned(a.x->shape[0]), 256, 0, stream(ctx)>>>(ref(a.x), ref(a.out), init.hidden_size, init.eps);
    launched();
  }
};
FK_OP(rms_norm, RmsNorm);
FK_OP(layer_norm, LayerNorm);
FK_OP(qk_rms_norm, QkRmsNorm);
FK_OP(l2_norm, L2Norm);

}  // namespace
