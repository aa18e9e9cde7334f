// SPDX-License-Identifier: Apache-2.0
// layer_norm, l2_norm, qk_rms_norm, q_kv_rms_norm, rms_norm_gated, softmax. Some lanes of a warp, or a
// block, have a row, sixteen bytes per thread. The row stays in registers from the first pass to
// the last.
#include "fk/ops/l2_norm.h"
#include "fk/ops/layer_norm.h"
#include "fk/ops/q_kv_rms_norm.h"
#include "fk/ops/qk_rms_norm.h"
#define FK_RMS_NORM_GATED_EDITION 1
#include "fk/ops/rms_norm_gated.h"
#include "fk/ops/softmax.h"
#include "parts/op.cuh"

namespace {
using namespace fkc;
constexpr int kThreads = 128, kThreadsMax = 1024, kPerMax = 4;
// Four vectors take so many registers that only half as many threads fit.
constexpr int most_threads(int per) { return per == 1 ? kThreadsMax : kThreadsMax / 2; }
constexpr int64_t kWidthMax = int64_t{most_threads(kPerMax)} * kPerMax * 8;

// The rows of a block, and the threads which share a row: up to 32 lanes, a power of two, or the
// whole block.
struct Shares {
  int lanes, threads;
  unsigned blocks;
  bool one;  // a vector for every thread
  Shares(int64_t rows, int64_t vectors) : one(vectors <= kThreadsMax) {
    for (lanes = 1; lanes < vectors && lanes < 32;) lanes *= 2;
    if (vectors > 32) lanes = int(cdiv(cdiv(vectors, one ? 1 : kPerMax), 32) * 32);
    threads = std::max(kThreads, lanes);
    if (lanes > 32) threads = lanes;
    blocks = unsigned(cdiv(rows, threads / lanes));
  }
};
struct Place {
  int64_t row;
  int lane;
  __device__ explicit Place(int lanes)
      : row(int64_t(blockIdx.x) * (int(blockDim.x) / lanes) + int(threadIdx.x) / lanes), lane(int(threadIdx.x) % lanes) {}
};
// The sum over the threads of a row, in each of them. All threads of the block call it.
__device__ float row_sum(float v, int lanes) {
  if (lanes > 32) return block_sum(v);
  for (int k = lanes / 2; k > 0; k /= 2) v += __shfl_xor_sync(0xffffffffu, v, k);
  return v;
}

// The same for the maximum.
__device__ float row_max(float v, int lanes) {
  if (lanes > 32) return block_max(v);
  for (int k = lanes / 2; k > 0; k /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, k));
  return v;
}

void need_width(int64_t width) { need(width % 8 == 0 && width <= kWidthMax, "channels: a multiple of 8 up to 16384"); }

template <class T, int kPer>
__global__ void __launch_bounds__(most_threads(kPer)) layer_norm(const T* x, const T* residual, Parameter<T> weight, Parameter<T> bias, T* out, int64_t rows, int lanes, int vectors,
                           float eps) {
  wait_for_inputs();
  const Place me(lanes);
  const int64_t base = me.row * vectors * 8;
  float values[kPer][8], sum = 0, squares = 0;
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * lanes + me.lane;
    if (me.row >= rows || i >= vectors) continue;
    const Vec8<T> a = load8(x + base + i * 8);
    Vec8<T> r;
    if (residual) r = load8(residual + base + i * 8);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      values[p][k] = to_float(a.at[k]) + (residual ? to_float(r.at[k]) : 0.F);
      sum += values[p][k];
    }
  }
  const float count = float(vectors * 8), mean = row_sum(sum, lanes) / count;
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    if (me.row >= rows || p * lanes + me.lane >= vectors) continue;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      values[p][k] -= mean;
      squares += values[p][k] * values[p][k];
    }
  }
  __syncthreads();  // block_sum() uses its memory again
  const float scale = rsqrtf(row_sum(squares, lanes) / count + eps);
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * lanes + me.lane;
    if (me.row >= rows || i >= vectors) continue;
    float w[8], b[8];
    weight.load(i * 8, 1, w);
    bias.load(i * 8, 0, b);
    Vec8<T> o;
#pragma unroll
    for (int k = 0; k < 8; ++k) o.at[k] = from_float<T>(values[p][k] * scale * w[k] + b[k]);
    store8(out + base + i * 8, o);
  }
}

template <class T, int kPer>
__global__ void __launch_bounds__(most_threads(kPer)) l2_norm(const T* x, T* out, int64_t rows, int lanes, int vectors, float eps) {
  wait_for_inputs();
  const Place me(lanes);
  const int64_t base = me.row * vectors * 8;
  Vec8<T> values[kPer];
  float sum = 0;
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * lanes + me.lane;
    if (me.row >= rows || i >= vectors) continue;
    values[p] = load8(x + base + i * 8);
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += to_float(values[p].at[k]) * to_float(values[p].at[k]);
  }
  const float scale = 1.F / fmaxf(sqrtf(row_sum(sum, lanes)), eps);
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * lanes + me.lane;
    if (me.row >= rows || i >= vectors) continue;
#pragma unroll
    for (int k = 0; k < 8; ++k) values[p].at[k] = from_float<T>(to_float(values[p].at[k]) * scale);
    store8(out + base + i * 8, values[p]);
  }
}

// Rows of heads of tokens, normalised in place. Strides are in elements.
template <class T> struct Side {
  T* x;
  Parameter<T> weight;
  int64_t rows, token, head;
  int heads, vectors;
};
template <class T> Side<T> side(const fk_inout* view, const fk_in* weight) {
  if (!view) return {};
  const bool heads = view->ndim == 3;
  const int64_t count = heads ? view->shape[1] : 1, width = view->shape[view->ndim - 1];
  return {fk::data<T>(view), parameter<T>(weight), view->shape[0] * count, view->strides[0], heads ? view->strides[1] : 0, int(count), int(width / 8)};
}
template <class T, int kPer>
__global__ void __launch_bounds__(most_threads(kPer)) rms_in_place(Side<T> first, Side<T> second, int lanes, float eps) {
  wait_for_inputs();
  const Side<T> s = blockIdx.y ? second : first;
  const Place me(lanes);
  T* const x = s.x + (s.heads == 1 ? me.row * s.token : me.row / s.heads * s.token + me.row % s.heads * s.head);
  Vec8<T> values[kPer];
  float sum = 0;
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * lanes + me.lane;
    if (me.row >= s.rows || i >= s.vectors) continue;
    values[p] = load8(x + i * 8);
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += to_float(values[p].at[k]) * to_float(values[p].at[k]);
  }
  const float scale = rsqrtf(row_sum(sum, lanes) / float(s.vectors * 8) + eps);
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * lanes + me.lane;
    if (me.row >= s.rows || i >= s.vectors) continue;
    float w[8];
    s.weight.load(i * 8, 1, w);
#pragma unroll
    for (int k = 0; k < 8; ++k) values[p].at[k] = from_float<T>(to_float(values[p].at[k]) * scale * w[k]);
    store8(x + i * 8, values[p]);
  }
}
// Two sides in one launch. The second one may be absent. The wider one decides how many threads
// share a row.
template <class T> void normalize(const Side<T>& first, const Side<T>& second, float eps, const fk_ctx& ctx) {
  const int64_t rows = std::max(first.rows, second.rows);
  if (!rows) return;
  const Shares shares(rows, std::max(first.vectors, second.vectors));
  const auto kernel = shares.one ? rms_in_place<T, 1> : rms_in_place<T, kPerMax>;
  launch(kernel, dim3(shares.blocks, second.rows ? 2 : 1), shares.threads, 0, ctx, first, second, shares.lanes, eps);
}

// Rows are groups of channels of tokens.
struct Groups {
  int64_t rows, x_token, z_token;
  int count, vectors;  // of a token; of a group
};
template <class T, int kPer>
__global__ void __launch_bounds__(most_threads(kPer)) rms_norm_gated(const T* x, const T* z, Parameter<T> weight, T* out, Groups groups, int lanes, float eps, int norm_first) {
  wait_for_inputs();
  const Place me(lanes);
  const int64_t token = me.row / groups.count;
  const int channel = int(me.row % groups.count) * groups.vectors * 8;
  x += token * groups.x_token + channel;
  z += token * groups.z_token + channel;
  float values[kPer][8], gates[kPer][8], sum = 0;
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * lanes + me.lane;
    if (me.row >= groups.rows || i >= groups.vectors) continue;
    const Vec8<T> a = load8(x + i * 8), g = load8(z + i * 8);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float gate = silu(to_float(g.at[k]));
      values[p][k] = to_float(a.at[k]) * (norm_first ? 1.F : gate);
      gates[p][k] = norm_first ? gate : 1.F;
      sum += values[p][k] * values[p][k];
    }
  }
  const float scale = rsqrtf(row_sum(sum, lanes) / float(groups.vectors * 8) + eps);
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * lanes + me.lane;
    if (me.row >= groups.rows || i >= groups.vectors) continue;
    float w[8];
    weight.load(channel + i * 8, 1, w);
    Vec8<T> o;
#pragma unroll
    for (int k = 0; k < 8; ++k) o.at[k] = from_float<T>(values[p][k] * scale * w[k] * gates[p][k]);
    store8(out + (token * groups.count * groups.vectors + i) * 8 + channel, o);
  }
}

template <class T, int kPer>
__global__ void __launch_bounds__(most_threads(kPer)) softmax(const T* x, T* out, int64_t rows, int lanes, int vectors) {
  wait_for_inputs();
  const Place me(lanes);
  const int64_t base = me.row * vectors * 8;
  float values[kPer][8], most = -INFINITY, sum = 0;
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * lanes + me.lane;
    if (me.row >= rows || i >= vectors) continue;
    load_floats(x + base + i * 8, values[p]);
#pragma unroll
    for (int k = 0; k < 8; ++k) most = fmaxf(most, values[p][k]);
  }
  most = row_max(most, lanes);
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    if (me.row >= rows || p * lanes + me.lane >= vectors) continue;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      values[p][k] = __expf(values[p][k] - most);
      sum += values[p][k];
    }
  }
  __syncthreads();  // block_sum() may use the memory of block_max()
  const float share = 1.F / row_sum(sum, lanes);
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * lanes + me.lane;
    if (me.row >= rows || i >= vectors) continue;
#pragma unroll
    for (int k = 0; k < 8; ++k) values[p][k] *= share;
    store_floats(out + base + i * 8, values[p]);
  }
}
// Rows of few elements which are no whole vectors: one in a thread.
template <class T>
__global__ void __launch_bounds__(kThreads) softmax_of_few(const T* x, T* out, int64_t rows, int size) {
  wait_for_inputs();
  const int64_t row = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * size, out += row * size;
  float most = -INFINITY, sum = 0;
  for (int i = 0; i < size; ++i) most = fmaxf(most, to_float(x[i]));
  for (int i = 0; i < size; ++i) sum += __expf(to_float(x[i]) - most);
  for (int i = 0; i < size; ++i) out[i] = from_float<T>(__expf(to_float(x[i]) - most) / sum);
}

struct LayerNorm : Base<fk::layer_norm> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need_width(init.hidden_size);
    need_parameter(weights.weight.or_null, max.x);
    need_parameter(weights.bias.or_null, max.x);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.x->shape[0], vectors = init.hidden_size / 8;
    if (!rows) return;
    const Shares shares(rows, vectors);
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch(shares.one ? layer_norm<T, 1> : layer_norm<T, kPerMax>, shares.blocks, shares.threads, 0, ctx, fk::data<T>(a.x), fk::data<T>(a.residual),
             parameter<T>(weights.weight.or_null), parameter<T>(weights.bias.or_null), fk::data<T>(a.out), rows, shares.lanes, int(vectors), float(init.eps));
    });
  }
};
struct L2Norm : Base<fk::l2_norm> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need_width(init.hidden_size);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.x->shape[0], vectors = init.hidden_size / 8;
    if (!rows) return;
    const Shares shares(rows, vectors);
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch(shares.one ? l2_norm<T, 1> : l2_norm<T, kPerMax>, shares.blocks, shares.threads, 0, ctx, fk::data<T>(a.x), fk::data<T>(a.out), rows,
             shares.lanes, int(vectors), float(init.eps));
    });
  }
};
struct QkRmsNorm : Base<fk::qk_rms_norm> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    const fk_in* const q = fk_as_in(max.q);
    need_16bit(q);
    need_width(init.head_dim);
    need_aligned(q);
    need_aligned(fk_as_in(max.k));
    need_parameter(weights.q_weight, q);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    dispatch(fk_as_in(a.q), [&](auto type) {
      using T = decltype(type);
      normalize(side<T>(a.q, weights.q_weight), side<T>(a.k, weights.k_weight), float(init.eps), ctx);
    });
  }
};
struct QKvRmsNorm : Base<fk::q_kv_rms_norm> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    const fk_in* const kv = fk_as_in(max.kv);
    need_16bit(kv);
    need_width(init.kv_lora_rank);
    need_aligned(kv);
    need_parameter(weights.kv_weight, kv);
    if (!max.q.or_null) return;
    need_width(init.q_lora_rank);
    need_aligned(fk_as_in(max.q.or_null));
    need_parameter(weights.q_weight.or_null, kv);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    dispatch(fk_as_in(a.kv), [&](auto type) {
      using T = decltype(type);
      normalize(side<T>(a.kv, weights.kv_weight), side<T>(a.q.or_null, weights.q_weight.or_null), float(init.eps), ctx);
    });
  }
};
struct RmsNormGated : Base<fk::rms_norm_gated> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(init.hidden_size % init.group_size == 0, "group_size does not divide hidden_size");
    need_width(init.group_size);
    need_aligned(max.x);
    need_aligned(max.z);
    need_parameter(weights.weight, max.x);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t count = init.hidden_size / init.group_size, rows = a.x->shape[0] * count, vectors = init.group_size / 8;
    if (!rows) return;
    const Shares shares(rows, vectors);
    const Groups groups{rows, a.x->strides[0], a.z->strides[0], int(count), int(vectors)};
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch(shares.one ? rms_norm_gated<T, 1> : rms_norm_gated<T, kPerMax>, shares.blocks, shares.threads, 0, ctx, fk::data<T>(a.x), fk::data<T>(a.z),
             parameter<T>(weights.weight), fk::data<T>(a.out), groups, shares.lanes, float(init.eps), int(init.norm_before_gate));
    });
  }
};
struct Softmax : Base<fk::softmax> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    if (init.size > 64 || init.size % 8 == 0) need_width(init.size);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.x->shape[0], vectors = init.size / 8;
    if (!rows) return;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      if (init.size % 8) return launch(softmax_of_few<T>, unsigned(cdiv(rows, kThreads)), kThreads, 0, ctx, fk::data<T>(a.x), fk::data<T>(a.out), rows, int(init.size));
      const Shares shares(rows, vectors);
      launch(shares.one ? softmax<T, 1> : softmax<T, kPerMax>, shares.blocks, shares.threads, 0, ctx, fk::data<T>(a.x), fk::data<T>(a.out), rows, shares.lanes, int(vectors));
    });
  }
};
FK_OP(layer_norm, LayerNorm);
FK_OP(l2_norm, L2Norm);
FK_OP(qk_rms_norm, QkRmsNorm);
FK_OP(q_kv_rms_norm, QKvRmsNorm);
FK_OP(rms_norm_gated, RmsNormGated);
FK_OP(softmax, Softmax);

}  // namespace
