// SPDX-License-Identifier: Apache-2.0
// rms_norm on a GPU for attacks and a control: a block for every row, and any mixture of float32 and bfloat16.
#pragma once
#include <cuda_bf16.h>

#include <stdexcept>

#include "fk/ops/rms_norm.h"

namespace attack {

struct Any {
  void* data;
  int bf16;
  __device__ float get(int64_t i) const { return bf16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]) : static_cast<const float*>(data)[i]; }
  __device__ void put(int64_t i, float v) const {
    if (bf16) static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(v);
    else static_cast<float*>(data)[i] = v;
  }
};

__global__ void norm(Any x, Any residual, Any weight, Any out, int64_t width, float eps, bool keep_residual) {
  __shared__ float sums[8];
  const int64_t row = blockIdx.x * width;
  const auto value = [&](int64_t i) { return x.get(row + i) + (residual.data ? residual.get(row + i) : 0.0f); };
  float sum = 0;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) sum += value(i) * value(i);
  for (int k = 16; k > 0; k /= 2) sum += __shfl_xor_sync(~0u, sum, k);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (float part : sums) sum += part;
  const float scale = rsqrtf(sum / float(width) + eps);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const float v = value(i);
    out.put(row + i, v * scale * (weight.data ? weight.get(i) : 1.0f));
    if (residual.data && !keep_residual) residual.put(row + i, v);
  }
}

struct Norm {
  using op = fk::rms_norm;
  static constexpr int32_t kSm[] = {90};
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 1, kSm};
  const int64_t width;
  const float eps;
  Any weight{};
  template <class View>
  static Any any(const View* tensor) {
    if (!tensor) return {};
    const int type = FK_DTYPE(tensor);
    if (type != FK_F32 && type != FK_BF16) throw fk::unsupported{"float32 and bfloat16 only"};
    return {const_cast<void*>(static_cast<const void*>(tensor->data)), type == FK_BF16};
  }
  static void supports(const op::init&, const op::weights& weights, const op::forward& max, fk_need&) {
    any(max.x), any(max.residual.or_null), any(weights.weight.or_null);
  }
  Norm(const fk_host&, const op::init& init, const op::weights& weights) : width(init.hidden_size), eps(float(init.eps)), weight(any(weights.weight.or_null)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void call(const op::forward& args, const fk_ctx& ctx, Any by, bool keep_residual = false) const {
    const int64_t rows = args.x->shape[0];
    if (!rows) return;
    norm<<<unsigned(rows), 256, 0, static_cast<cudaStream_t>(ctx.stream)>>>(any(args.x), any(args.residual.or_null), by, any(args.out), width, eps, keep_residual);
    if (const cudaError_t status = cudaPeekAtLastError(); status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  }
};

}  // namespace attack
