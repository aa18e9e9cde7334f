// SPDX-License-Identifier: Apache-2.0
// What every op of this provider shares: elements of any float type through views with strides, a block
// reduction in double, launch checks, and the part of an op's class that is always the same. Nothing here
// is fast; all of it is obvious and sums in double.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "fk/cpp/plugin.hpp"

namespace fkr {

inline constexpr int32_t kSm[] = {90};
inline constexpr fk_claims kClaims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F64, 0, 1, kSm};

// A view as a kernel sees it.
struct Ref {
  char* data;
  int64_t stride[4];
  int dtype;
};
inline Ref ref(const fk_in* view) {
  Ref r{};
  if (!view) return r;
  r.data = static_cast<char*>(const_cast<void*>(view->data));
  for (int i = 0; i < view->ndim && i < 4; ++i) r.stride[i] = view->strides[i];
  r.dtype = FK_DTYPE(view);
  return r;
}
inline Ref ref(const fk_out* view) { return ref(view ? fk_as_in(view) : nullptr); }
inline Ref ref(fk_opt_in view) { return ref(view.or_null); }
inline Ref ref(fk_opt_out view) { return ref(view.or_null); }

__device__ inline double load(const Ref& r, int64_t at) {
  switch (r.dtype) {
    case FK_F32: return reinterpret_cast<const float*>(r.data)[at];
    case FK_BF16: return static_cast<double>(__bfloat162float(reinterpret_cast<const __nv_bfloat16*>(r.data)[at]));
    case FK_F16: return static_cast<double>(__half2float(reinterpret_cast<const __half*>(r.data)[at]));
    default: return reinterpret_cast<const double*>(r.data)[at];
  }
}
// Rounds once, from double to the type itself.
__device__ inline void store(const Ref& r, int64_t at, double v) {
  switch (r.dtype) {
    case FK_F32: reinterpret_cast<float*>(r.data)[at] = static_cast<float>(v); break;
    case FK_BF16: reinterpret_cast<__nv_bfloat16*>(r.data)[at] = __double2bfloat16(v); break;
    case FK_F16: reinterpret_cast<__half*>(r.data)[at] = __double2half(v); break;
    default: reinterpret_cast<double*>(r.data)[at] = v; break;
  }
}

// Sum over a block of up to 1024 threads, the same value in every thread.
__device__ inline double block_sum(double v) {
  __shared__ double warp[32];
  for (int k = 16; k > 0; k >>= 1) v += __shfl_xor_sync(0xffffffffu, v, k);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = v;
  __syncthreads();
  double sum = 0;
  for (unsigned i = 0; i < (blockDim.x + 31) / 32; ++i) sum += warp[i];
  return sum;
}
__device__ inline double block_max(double v) {
  __shared__ double warp[32];
  for (int k = 16; k > 0; k >>= 1) v = fmax(v, __shfl_xor_sync(0xffffffffu, v, k));
  __syncthreads();
  if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = v;
  __syncthreads();
  double most = warp[0];
  for (unsigned i = 1; i < (blockDim.x + 31) / 32; ++i) most = fmax(most, warp[i]);
  return most;
}

inline cudaStream_t stream(const fk_ctx& ctx) { return static_cast<cudaStream_t>(ctx.stream); }
inline void launched() {
  const cudaError_t status = cudaPeekAtLastError();
  if (status != cudaSuccess) throw std::runtime_error(std::string("launch: ") + cudaGetErrorString(status));
}
inline unsigned blocks(int64_t n, int threads) { return static_cast<unsigned>((n + threads - 1) / threads); }

// Everything but forward(): keeps init and weights, asks for nothing, takes every case.
template <class Op>
struct Plain {
  using op = Op;
  static constexpr fk_claims claims = kClaims;
  const typename Op::init& init;
  const typename Op::weights& weights;
  static void supports(const typename Op::init&, const typename Op::weights&, const typename Op::forward&, fk_need&) {}
  Plain(const fk_host&, const typename Op::init& i, const typename Op::weights& w) : init(i), weights(w) {}
  void prepare(const typename Op::forward&, const fk_memory&) {}
};

}  // namespace fkr
