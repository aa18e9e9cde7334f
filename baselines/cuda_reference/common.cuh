// SPDX-License-Identifier: Apache-2.0
// Shared by all ops of this provider: elements of any float type in views with strides, and
// reductions of a block in a fixed order. Also launches, and the base class of ops. The code is
// plain rather than fast, and sums are double.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "device.cuh"

namespace fkr {

// A view as a kernel sees it.
struct Ref {
  char* data;
  int64_t stride[6];
  int dtype;
  // Offset of the element with these leading indices.
  template <class... Index>
  __device__ int64_t at(Index... index) const {
    const int64_t leading[] = {int64_t(index)...};
    int64_t sum = 0;
    for (unsigned i = 0; i < sizeof...(index); ++i) sum += leading[i] * stride[i];
    return sum;
  }
};
inline Ref ref(const fk_in* view) {
  Ref r{};
  if (!view) return r;
  r.data = static_cast<char*>(const_cast<void*>(view->data));
  for (int i = 0; i < view->ndim && i < 6; ++i) r.stride[i] = view->strides[i];
  r.dtype = FK_DTYPE(view);
  return r;
}
inline Ref ref(const fk_out* view) { return ref(view ? fk_as_in(view) : nullptr); }
inline Ref ref(fk_opt_in view) { return ref(view.or_null); }
inline Ref ref(fk_opt_out view) { return ref(view.or_null); }

// Sign, four bits of exponent, three of mantissa; all ones is NaN and there is no infinity.
__device__ inline double f8e4m3(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if ((bits & 127) == 127) return NAN;
  const double magnitude = exponent ? (8 + mantissa) * double(1 << exponent) / 1024 : mantissa / 512.0;
  return bits & 128 ? -magnitude : magnitude;
}
__device__ inline double as_double(float v) { return v; }
__device__ inline double as_double(double v) { return v; }
__device__ inline double as_double(__nv_bfloat16 v) { return static_cast<double>(__bfloat162float(v)); }
__device__ inline double as_double(__half v) { return static_cast<double>(__half2float(v)); }
__device__ inline double as_double(uint8_t v) { return f8e4m3(v); }
// Calls body(elements), a pointer to their type. For many reads, the type is asked for once,
// outside of the loop.
template <class Body>
__device__ inline auto with_elements(const Ref& r, Body body) {
  switch (r.dtype) {
    case FK_F32: return body(reinterpret_cast<float*>(r.data));
    case FK_BF16: return body(reinterpret_cast<__nv_bfloat16*>(r.data));
    case FK_F16: return body(reinterpret_cast<__half*>(r.data));
    case FK_F8E4M3: return body(reinterpret_cast<uint8_t*>(r.data));
    default: return body(reinterpret_cast<double*>(r.data));
  }
}
__device__ inline double load(const Ref& r, int64_t at) {
  return with_elements(r, [=](const auto* elements) { return as_double(elements[at]); });
}
// An element of a weight which may be absent.
__device__ inline double load_or(const Ref& r, int64_t at, double otherwise) { return r.data ? load(r, at) : otherwise; }
// Rounds once, from double to the type itself.
__device__ inline void put(float* to, double v) { *to = static_cast<float>(v); }
__device__ inline void put(double* to, double v) { *to = v; }
__device__ inline void put(__nv_bfloat16* to, double v) { *to = __double2bfloat16(v); }
__device__ inline void put(__half* to, double v) { *to = __double2half(v); }
__device__ inline void put(uint8_t*, double) {}  // no op writes f8e4m3
__device__ inline void store(const Ref& r, int64_t at, double v) {
  with_elements(r, [=](auto* elements) { put(elements + at, v); });
}

// merge() over the values of a block's threads (whole warps, up to 1024), with the same result in
// every thread.
template <class T, class Merge>
__device__ inline T block_reduce(T v, Merge merge) {
  __shared__ T warp[32];
  for (int k = 16; k > 0; k >>= 1) v = merge(v, __shfl_xor_sync(0xffffffffu, v, k));
  __syncthreads();
  if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0)
    for (unsigned i = 1; i < blockDim.x / 32; ++i) warp[0] = merge(warp[0], warp[i]);
  __syncthreads();
  return warp[0];
}
__device__ inline double block_sum(double v) {
  return block_reduce(v, [](double a, double b) { return a + b; });
}
__device__ inline double block_max(double v) {
  return block_reduce(v, [](double a, double b) { return fmax(a, b); });
}

// The sum of v over the threads of a block (whole warps) before this one; `total` over all.
__device__ inline int64_t block_scan(int64_t v, int64_t& total) {
  __shared__ int64_t before[33];  // each warp, and the end
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  int64_t upto = v;
  for (unsigned step = 1; step < 32; step *= 2) {
    const int64_t other = __shfl_sync(0xffffffffu, upto, static_cast<int>((lane - step) % 32));
    if (lane >= step) upto += other;
  }
  __syncthreads();
  if (lane == 31) before[warp + 1] = upto;
  __syncthreads();
  if (threadIdx.x == 0) {
    before[0] = 0;
    for (unsigned i = 1; i <= warps; ++i) before[i] += before[i - 1];
  }
  __syncthreads();
  total = before[warps];
  return before[warp] + upto - v;
}
// Calls put(i, sum of count(j) over all j < i) for every i < n, and returns the whole sum. One
// block does it, and every thread takes a piece. put(i) may change the inputs of count(i).
template <class Count, class Put>
__device__ inline int64_t running_sum(int64_t n, Count count, Put put) {
  const int64_t piece = (n + blockDim.x - 1) / blockDim.x;
  const int64_t first = min(n, piece * threadIdx.x), last = min(n, first + piece);
  int64_t mine = 0, total;
  for (int64_t i = first; i < last; ++i) mine += count(i);
  int64_t sum = block_scan(mine, total);
  for (int64_t i = first; i < last; ++i) {
    const int64_t own = count(i);
    put(i, sum);
    sum += own;
  }
  return total;
}

inline unsigned blocks(int64_t n, int threads) { return static_cast<unsigned>((n + threads - 1) / threads); }

// Enqueues kernel(args...) on the stream of ctx; `shared` are bytes for dynamic_shared().
template <class Kernel, class... Args>
void launch(const fk_ctx& ctx, Kernel kernel, dim3 grid, int threads, size_t shared, const Args&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = static_cast<cudaStream_t>(ctx.stream);
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, args...);
  if (status != cudaSuccess) throw std::runtime_error(std::string("launch: ") + cudaGetErrorString(status));
}

template <class Body>
__global__ void each(int64_t n, Body body) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) body(i);
}
// Calls body(i) for i < n, each by one thread.
template <class Body>
void for_each(int64_t n, const fk_ctx& ctx, Body body) {
  if (n) launch(ctx, each<Body>, unsigned(std::min<int64_t>(blocks(n, kThreads), kMaxBlocks)), kThreads, 0, n, body);
}

template <class Body>
__global__ void __launch_bounds__(kManyThreads) each_row(int64_t n, Body body) {
  for (int64_t row = blockIdx.x; row < n; row += gridDim.x) {
    body(row);
    __syncthreads();  // before shared memory is used again
  }
}
// Calls body(row) for row < n, each by all threads of a block.
template <class Body>
void for_rows(int64_t n, int threads, size_t shared, const fk_ctx& ctx, Body body) {
  if (n) launch(ctx, each_row<Body>, unsigned(std::min(n, kMaxBlocks)), threads, shared, n, body);
}
template <class Body>
void for_rows(int64_t n, const fk_ctx& ctx, Body body) {
  for_rows(n, kThreads, 0, ctx, body);
}

// Bytes of dynamic shared memory of any block, without the memory of reductions.
inline constexpr int64_t kSharedLimit = 38 << 10;

__device__ inline double silu(double x) { return x / (1 + exp(-x)); }
__device__ inline double mish(double x) { return x * tanh(fmax(x, 0.0) + log1p(exp(-fabs(x)))); }
// The activation behind a norm of pixels: none, relu, silu, gelu or mish, in the order of the contracts' choices.
__device__ inline double pixel_activation(int64_t kind, double x) {
  switch (kind) {
    case 1: return x > 0 ? x : 0;
    case 2: return silu(x);
    case 3: return 0.5 * x * erfc(-x * 0.70710678118654752440);
    case 4: return mish(x);
    default: return x;
  }
}

// All of an op but forward(): keeps init and weights, needs no memory, takes every case.
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
