// SPDX-License-Identifier: Apache-2.0
// mean_pool, global_response_norm, embedding_bag: sums over rows, with eight channels in each
// thread.
#include "fk/ops/embedding_bag.h"
#include "fk/ops/global_response_norm.h"
#include "fk/ops/mean_pool.h"
#include "parts/op.cuh"

namespace {
using namespace fkc;
constexpr int kThreads = kItemThreads, kWarps = kThreads / 32;
constexpr int64_t kPixels = 128;  // pixels of a part, which a block sums

// Sums the values or squares of rows [first, last) over the block. Rows have `vectors` times eight
// channels, and each lane has eight of them. The first warp gets the sum. Each warp takes every
// eighth row.
template <bool kSquares, class T> __device__ void sum_rows(const T* rows, int64_t first, int64_t last, int vectors, int vector, float (&sum)[8]) {
  __shared__ float parts[kWarps][8][33];
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < 8; ++k) sum[k] = 0;
  for (int64_t i = first + warp; vector < vectors && i < last; i += kWarps) {
    const Vec8<T> p = load8(rows + (i * vectors + vector) * 8);
#pragma unroll
    for (int k = 0; k < 8; ++k) sum[k] += to_float(p.at[k]) * (kSquares ? to_float(p.at[k]) : 1.F);
  }
#pragma unroll
  for (int k = 0; k < 8; ++k) parts[warp][k][lane] = sum[k];
  __syncthreads();
  if (warp) return;
  for (int w = 1; w < kWarps; ++w)
#pragma unroll
    for (int k = 0; k < 8; ++k) sum[k] += parts[w][k][lane];
}

template <class T> __global__ void __launch_bounds__(kThreads) mean_pool(const T* x, T* out, int64_t pixels, int vectors) {
  wait_for_inputs();
  const int vector = int(blockIdx.x) * 32 + int(threadIdx.x) % 32;
  const int64_t image = blockIdx.y;
  float sum[8];
  sum_rows<false>(x + image * pixels * vectors * 8, 0, pixels, vectors, vector, sum);
  if (threadIdx.x >= 32 || vector >= vectors) return;
  Vec8<T> o;
#pragma unroll
  for (int k = 0; k < 8; ++k) o.at[k] = from_float<T>(sum[k] / float(pixels));
  store8(out + (image * vectors + vector) * 8, o);
}

// Three kernels: squares of channels over parts of an image, a factor for every channel, and every
// element.
template <class T> __global__ void __launch_bounds__(kThreads) square_parts(const T* x, float* sums, int64_t pixels, int vectors) {
  wait_for_inputs();
  const int vector = int(blockIdx.x) * 32 + int(threadIdx.x) % 32;
  const int64_t image = blockIdx.z, first = int64_t(blockIdx.y) * kPixels;
  float sum[8];
  sum_rows<true>(x + image * pixels * vectors * 8, first, first + kPixels < pixels ? first + kPixels : pixels, vectors, vector, sum);
  if (threadIdx.x >= 32 || vector >= vectors) return;
  float* const to = sums + ((image * gridDim.y + blockIdx.y) * vectors + vector) * 8;
#pragma unroll
  for (int k = 0; k < 8; ++k) to[k] = sum[k];
}
__global__ void __launch_bounds__(kThreads) response(const float* sums, float* factors, int parts, int channels, float eps) {
  wait_for_inputs();
  const int64_t image = blockIdx.x;
  float total = 0;
  for (int c = int(threadIdx.x); c < channels; c += kThreads) {
    float squares = 0;
    for (int p = 0; p < parts; ++p) squares += sums[(image * parts + p) * channels + c];
    const float norm = sqrtf(squares);
    factors[image * channels + c] = norm;
    total += norm;
  }
  const float mean = block_sum(total) / float(channels);
  for (int c = int(threadIdx.x); c < channels; c += kThreads) factors[image * channels + c] /= mean + eps;
}
template <class T>
__global__ void __launch_bounds__(kThreads)
apply(const T* x, Parameter<T> weight, Parameter<T> bias, const float* factors, T* out, int64_t items, int64_t of_image, int vectors) {
  wait_for_inputs();
  const int64_t i = item_of_thread();
  if (i >= items) return;
  const int c = int(i % vectors) * 8;
  const float* const factor = factors + i / of_image * vectors * 8 + c;
  float w[8], b[8];
  weight.load(c, 1, w);
  bias.load(c, 0, b);
  Vec8<T> p = load8(x + i * 8);
#pragma unroll
  for (int k = 0; k < 8; ++k) p.at[k] = from_float<T>(to_float(p.at[k]) * (1.F + w[k] * factor[k]) + b[k]);
  store8(out + i * 8, p);
}

// A thread has eight channels of one bag.
struct Bags {
  const int64_t *indices, *offsets;
  int64_t bags, step, padding;  // step: from one bag of this table to the next, in elements of the output
  int vectors, mean;
};
template <class T, class O> __global__ void __launch_bounds__(kThreads) sum_bags(const T* table, const T* factors, O* out, Bags a) {
  wait_for_inputs();
  const int64_t i = item_of_thread(), bag = i / a.vectors;
  if (bag >= a.bags) return;
  const int c = int(i % a.vectors) * 8;
  float sum[8] = {};
  int64_t count = 0;
  for (int64_t j = a.offsets[bag]; j < a.offsets[bag + 1]; ++j) {
    const int64_t index = a.indices[j];
    if (index == a.padding) continue;
    const float factor = factors ? to_float(factors[j]) : 1.F;
    const Vec8<T> p = load8(table + index * a.vectors * 8 + c);
#pragma unroll
    for (int k = 0; k < 8; ++k) sum[k] += factor * to_float(p.at[k]);
    ++count;
  }
  const float scale = a.mean && count ? 1.F / float(count) : 1.F;
  constexpr int kOnce = int(16 / sizeof(O));
#pragma unroll
  for (int k = 0; k < 8; k += kOnce) {
    alignas(16) O o[kOnce];
#pragma unroll
    for (int j = 0; j < kOnce; ++j) o[j] = from_float<O>(sum[k + j] * scale);
    *reinterpret_cast<uint4*>(out + bag * a.step + c + k) = *reinterpret_cast<const uint4*>(o);
  }
}

struct MeanPool : Base<fk::mean_pool> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(init.size % 8 == 0, "size: a multiple of 8 only");
    need(max.x->shape[0] < 65536, "images: fewer than 65536");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t images = a.x->shape[0], pixels = a.x->shape[1] * a.x->shape[2], vectors = init.size / 8;
    if (!images) return;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch(mean_pool<T>, dim3(unsigned(cdiv(vectors, 32)), unsigned(images)), kThreads, 0, ctx, fk::data<T>(a.x), fk::data<T>(a.out), pixels, int(vectors));
    });
  }
};
struct GlobalResponseNorm : Base<fk::global_response_norm> {
  using Base::Base;
  static int64_t parts_of(const op::forward& a) { return cdiv(a.x->shape[1] * a.x->shape[2], kPixels); }
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& its) {
    need_16bit(max.x);
    need(init.hidden_size % 8 == 0, "hidden_size: a multiple of 8 only");
    need_parameter(weights.weight, max.x);
    need_parameter(weights.bias, max.x);
    need(max.x->shape[0] < 65536 && parts_of(max) < 65536, "images: fewer or smaller");
    its.scratch = max.x->shape[0] * (parts_of(max) + 1) * init.hidden_size * 4;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t images = a.x->shape[0], pixels = a.x->shape[1] * a.x->shape[2], vectors = init.hidden_size / 8, parts = parts_of(a);
    if (!images || !pixels) return;
    auto* const factors = static_cast<float*>(ctx.scratch);
    float* const sums = factors + images * init.hidden_size;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch(square_parts<T>, dim3(unsigned(cdiv(vectors, 32)), unsigned(parts), unsigned(images)), kThreads, 0, ctx, fk::data<T>(a.x), sums, pixels,
             int(vectors));
      launch(response, unsigned(images), kThreads, 0, ctx, sums, factors, int(parts), int(init.hidden_size), float(init.eps));
      launch(apply<T>, blocks_of(images * pixels * vectors), kThreads, 0, ctx, fk::data<T>(a.x), parameter<T>(weights.weight),
             parameter<T>(weights.bias), factors, fk::data<T>(a.out), images * pixels * vectors, pixels * vectors, int(vectors));
    });
  }
};
struct EmbeddingBag : Base<fk::embedding_bag> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    const fk_in* const table = weights.tables->at[0];
    need_16bit(table);
    need(init.embedding_dim % 8 == 0, "embedding_dim: a multiple of 8 only");
    need(FK_DTYPE(max.out) == FK_F32 || FK_DTYPE(max.out) == FK_DTYPE(table), "out: the dtype of the tables or float32 only");
    need(init.mode != FK_EMBEDDING_BAG_MODE_MEAN || !max.per_sample_weights.or_null, "per_sample_weights: in sums only");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t vectors = init.embedding_dim / 8, bags = a.out->shape[0], tables = init.num_tables;
    if (!bags) return;
    for (int64_t n = 0; n < tables; ++n) {
      const fk_in* const table = weights.tables->at[n];
      const Bags its{fk::data<int64_t>(a.indices->at[n]), fk::data<int64_t>(a.offsets->at[n]), bags, tables * init.embedding_dim, init.padding_idx,
                     int(vectors), init.mode == FK_EMBEDDING_BAG_MODE_MEAN};
      dispatch(table, [&](auto type) {
        using T = decltype(type);
        const T* const factors = a.per_sample_weights.or_null ? fk::data<T>(a.per_sample_weights.or_null->at[n]) : nullptr;
        const auto go = [&](auto* out) {
          launch(sum_bags<T, std::remove_pointer_t<decltype(out)>>, blocks_of(bags * vectors), kThreads, 0, ctx, fk::data<T>(table), factors,
                 out + n * init.embedding_dim, its);
        };
        if (FK_DTYPE(a.out) == FK_F32) go(fk::data<float>(a.out));
        else go(fk::data<T>(a.out));
      });
    }
  }
};
FK_OP(mean_pool, MeanPool);
FK_OP(global_response_norm, GlobalResponseNorm);
FK_OP(embedding_bag, EmbeddingBag);

}  // namespace
