// SPDX-License-Identifier: Apache-2.0
// rms_norm, layer_norm, qk_rms_norm, q_kv_rms_norm, rms_norm_gated, l2_norm: one block per row, statistics in
// double. group_norm: one block per group of an image. global_response_norm: one thread per channel of an image. batch_norm: one thread per element.
#include "common.cuh"
#include "fk/ops/batch_norm.h"
#include "fk/ops/global_response_norm.h"
#include "fk/ops/group_norm.h"
#include "fk/ops/l2_norm.h"
#include "fk/ops/layer_norm.h"
#include "fk/ops/q_kv_rms_norm.h"
#include "fk/ops/qk_rms_norm.h"
#include "fk/ops/rms_norm.h"
#define FK_RMS_NORM_GATED_EDITION 2
#include "fk/ops/rms_norm_gated.h"

namespace {
using namespace fkr;

// The sum of term(c) over a row's columns, by a block.
template <class Term>
__device__ double sum_of(int64_t width, Term term) {
  double sum = 0;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) sum += term(c);
  return block_sum(sum);
}

struct RmsNorm : Plain<fk::rms_norm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), residual = ref(a.residual), weight = ref(weights.weight), out = ref(a.out);
    const int64_t width = init.hidden_size;
    const double eps = init.eps;
    for_rows(a.x->shape[0], ctx, [=] __device__(int64_t t) {
      const int64_t row = t * width;
      for (int64_t c = threadIdx.x; residual.data && c < width; c += blockDim.x)
        store(residual, row + c, load(x, row + c) + load(residual, row + c));
      const Ref& source = residual.data ? residual : x;  // the norm sees the rounded sum, as the next layer does
      const double squares = sum_of(width, [&](int64_t c) { return load(source, row + c) * load(source, row + c); });
      const double scale = 1 / sqrt(squares / double(width) + eps);
      for (int64_t c = threadIdx.x; c < width; c += blockDim.x) store(out, row + c, load(source, row + c) * scale * load_or(weight, c, 1));
    });
  }
};
struct LayerNorm : Plain<fk::layer_norm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), residual = ref(a.residual), weight = ref(weights.weight), bias = ref(weights.bias), out = ref(a.out);
    const int64_t width = init.hidden_size;
    const double eps = init.eps;
    for_rows(a.x->shape[0], ctx, [=] __device__(int64_t t) {
      const int64_t row = t * width;
      const auto at = [&](int64_t c) { return load(x, row + c) + load_or(residual, row + c, 0); };
      const double mean = sum_of(width, at) / double(width);
      const double squares = sum_of(width, [&](int64_t c) { return (at(c) - mean) * (at(c) - mean); });
      const double scale = 1 / sqrt(squares / double(width) + eps);
      for (int64_t c = threadIdx.x; c < width; c += blockDim.x)
        store(out, row + c, (at(c) - mean) * scale * load_or(weight, c, 1) + load_or(bias, c, 0));
    });
  }
};

// Rows of the view's last axis, in place. A token has `heads` rows, or one if the view has no
// heads.
void normalize(const fk_inout* view, int64_t heads, const fk_in* weight_or_null, double eps, const fk_ctx& ctx) {
  const Ref x = ref(view), weight = ref(weight_or_null);
  const int64_t width = view->shape[view->ndim - 1];
  const bool with_heads = view->ndim == 3;
  for_rows(view->shape[0] * heads, ctx, [=] __device__(int64_t row) {
    const int64_t base = with_heads ? x.at(row / heads, row % heads) : x.at(row);
    const double squares = sum_of(width, [&](int64_t c) { return load(x, base + c) * load(x, base + c); });
    const double scale = 1 / sqrt(squares / double(width) + eps);
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) store(x, base + c, load(x, base + c) * scale * load_or(weight, c, 1));
  });
}
struct QkRmsNorm : Plain<fk::qk_rms_norm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    normalize(a.q, init.num_heads, weights.q_weight, init.eps, ctx);
    normalize(a.k, init.num_kv_heads, weights.k_weight, init.eps, ctx);
  }
};
struct QKvRmsNorm : Plain<fk::q_kv_rms_norm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (a.q.or_null) normalize(a.q.or_null, 1, weights.q_weight.or_null, init.eps, ctx);
    normalize(a.kv, 1, weights.kv_weight, init.eps, ctx);
  }
};

struct RmsNormGated : Plain<fk::rms_norm_gated> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (init.hidden_size % init.group_size) throw fk::unsupported{"group_size does not divide hidden_size"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), z = ref(a.z), weight = ref(weights.weight), out = ref(a.out);
    const int64_t width = init.hidden_size, group = init.group_size, groups = width / group;
    const double eps = init.eps;
    const bool norm_first = init.norm_before_gate != 0, sigmoid = init.activation == FK_RMS_NORM_GATED_ACTIVATION_SIGMOID;
    for_rows(a.x->shape[0] * groups, ctx, [=] __device__(int64_t row) {
      const int64_t t = row / groups, first = row % groups * group;
      const auto gate = [&](int64_t c) {
        const double v = load(z, z.at(t) + first + c);
        return sigmoid ? 1 / (1 + exp(-v)) : silu(v);
      };
      const auto value = [&](int64_t c) { return load(x, x.at(t) + first + c) * (norm_first ? 1 : gate(c)); };
      const double squares = sum_of(group, [&](int64_t c) { return value(c) * value(c); });
      const double scale = 1 / sqrt(squares / double(group) + eps);
      for (int64_t c = threadIdx.x; c < group; c += blockDim.x)
        store(out, t * width + first + c, value(c) * scale * load(weight, first + c) * (norm_first ? gate(c) : 1));
    });
  }
};
struct L2Norm : Plain<fk::l2_norm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const int64_t width = init.hidden_size;
    const double eps = init.eps;
    for_rows(a.x->shape[0], ctx, [=] __device__(int64_t t) {
      const int64_t row = t * width;
      const double norm = fmax(sqrt(sum_of(width, [&](int64_t c) { return load(x, row + c) * load(x, row + c); })), eps);
      for (int64_t c = threadIdx.x; c < width; c += blockDim.x) store(out, row + c, load(x, row + c) / norm);
    });
  }
};

// Norms of channels over their image, then the mean of the norms, then every element.
struct GlobalResponseNorm : Plain<fk::global_response_norm> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need) {
    need.scratch = max.x->shape[0] * (init.hidden_size + 1) * 8;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), weight = ref(weights.weight), bias = ref(weights.bias), out = ref(a.out);
    const int64_t images = a.x->shape[0], positions = a.x->shape[1] * a.x->shape[2], width = init.hidden_size;
    const double eps = init.eps;
    auto *norms = static_cast<double*>(ctx.scratch), *means = norms + images * width;
    for_each(images * width, ctx, [=] __device__(int64_t i) {
      const int64_t first = i / width * positions * width + i % width;
      double squares = 0;
      for (int64_t p = 0; p < positions; ++p) squares += load(x, first + p * width) * load(x, first + p * width);
      norms[i] = sqrt(squares);
    });
    for_rows(images, ctx, [=] __device__(int64_t b) {
      const double sum = sum_of(width, [&](int64_t c) { return norms[b * width + c]; });
      if (threadIdx.x == 0) means[b] = sum / double(width);
    });
    for_each(images * positions * width, ctx, [=] __device__(int64_t i) {
      const int64_t b = i / width / positions, c = i % width;
      const double response = 1 + load(weight, c) * norms[b * width + c] / (means[b] + eps);
      store(out, i, load(x, i) * response + load(bias, c));
    });
  }
};
struct BatchNorm : Plain<fk::batch_norm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out), weight = ref(weights.weight), bias = ref(weights.bias), mean = ref(weights.mean),
              variance = ref(weights.variance);
    const int64_t width = init.size, kind = init.activation;
    const double eps = init.eps;
    for_each(a.x->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t c = i % width;
      const double scale = load_or(weight, c, 1) / sqrt(load(variance, c) + eps);
      store(out, i, pixel_activation(kind, (load(x, i) - load(mean, c)) * scale + load_or(bias, c, 0)));
    });
  }
};
struct GroupNorm : Plain<fk::group_norm> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (init.num_channels % init.num_groups) throw fk::unsupported{"num_groups: does not divide the channels"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out), weight = ref(weights.weight), bias = ref(weights.bias);
    const int64_t channels = init.num_channels, groups = init.num_groups, width = channels / groups, kind = init.activation;
    const int64_t pixels = a.x->shape[1] * a.x->shape[2], all = pixels * width;
    const double eps = init.eps;
    for_rows(a.x->shape[0] * groups, ctx, [=] __device__(int64_t row) {
      const int64_t first = row / groups * pixels * channels + row % groups * width;
      const auto at = [=](int64_t i) { return first + i / width * channels + i % width; };
      const double mean = sum_of(all, [=](int64_t i) { return load(x, at(i)); }) / double(all);
      const double squares = sum_of(all, [=](int64_t i) {
        const double d = load(x, at(i)) - mean;
        return d * d;
      });
      const double scale = 1 / sqrt(squares / double(all) + eps);
      for (int64_t i = threadIdx.x; i < all; i += blockDim.x) {
        const int64_t c = row % groups * width + i % width;
        store(out, at(i), pixel_activation(kind, (load(x, at(i)) - mean) * scale * load_or(weight, c, 1) + load_or(bias, c, 0)));
      }
    });
  }
};
FK_OP(group_norm, GroupNorm);
FK_OP(batch_norm, BatchNorm);
FK_OP(rms_norm, RmsNorm);
FK_OP(layer_norm, LayerNorm);
FK_OP(qk_rms_norm, QkRmsNorm);
FK_OP(q_kv_rms_norm, QKvRmsNorm);
FK_OP(rms_norm_gated, RmsNormGated);
FK_OP(l2_norm, L2Norm);
FK_OP(global_response_norm, GlobalResponseNorm);

}  // namespace
