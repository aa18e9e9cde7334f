// SPDX-License-Identifier: Apache-2.0
#include "core/comm/cuda/kernels.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "fk/comm.h"

namespace fk::cuda {

namespace {

static_assert(kRanksMax <= 64, "a thread of one block for each rank");

__device__ void store_release(uint32_t* at, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ uint32_t load_acquire(const uint32_t* at) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ unsigned long long time_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void barrier_kernel(RankPointers pads, uint32_t* count, int rank, int size, unsigned long long patience_ns) {
  const int r = int(threadIdx.x);
  const uint32_t number = *count + 1;
  __syncthreads();
  if (r == 0) *count = number;
  if (r >= size) return;
  // A rank that sees the number also sees the writes of earlier kernels.
  __threadfence_system();
  store_release(static_cast<uint32_t*>(pads.at[r]) + rank, number);
  const uint32_t* theirs = static_cast<uint32_t*>(pads.at[rank]) + r;
  const unsigned long long start = time_ns();
  while (int32_t(load_acquire(theirs) - number) < 0)
    if (time_ns() - start > patience_ns) __trap();
}

template <class T> struct Wide { using type = long long; };
template <> struct Wide<double> { using type = double; };
template <> struct Wide<float> { using type = float; };
template <> struct Wide<__half> { using type = float; };
template <> struct Wide<__nv_bfloat16> { using type = float; };

template <class W, class T> __device__ W widen(T v) { return W(v); }
template <> __device__ float widen(__half v) { return __half2float(v); }
template <> __device__ float widen(__nv_bfloat16 v) { return __bfloat162float(v); }
template <class T, class W> __device__ T narrow(W v) { return T(v); }
template <> __device__ __half narrow(float v) { return __float2half(v); }
template <> __device__ __nv_bfloat16 narrow(float v) { return __float2bfloat16(v); }

template <class T> __global__ void reduce_kernel(RankPointers from, int size, T* out, int64_t count, int op) {
  using W = typename Wide<T>::type;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    W sum = widen<W>(static_cast<const T*>(from.at[0])[i]);
    for (int r = 1; r < size; ++r) {
      const W next = widen<W>(static_cast<const T*>(from.at[r])[i]);
      sum = op == FK_SUM ? sum + next : op == FK_MAX ? (next > sum ? next : sum) : (next < sum ? next : sum);
    }
    out[i] = narrow<T>(sum);
  }
}

}  // namespace

cudaError_t barrier(const RankPointers& pads, uint32_t* count, int rank, int size, double patience_s, cudaStream_t stream) {
  barrier_kernel<<<1, 64, 0, stream>>>(pads, count, rank, size, static_cast<unsigned long long>(1e9 * patience_s));
  return cudaGetLastError();
}

cudaError_t reduce(const RankPointers& from, int size, void* out, int dtype, int64_t count, int64_t op, cudaStream_t stream) {
  if (op < FK_SUM || op > FK_MIN) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  const unsigned blocks = unsigned(count < 512 * 264 ? (count + 511) / 512 : 264);
  const auto go = [&](auto type) {
    using T = decltype(type);
    reduce_kernel<T><<<blocks, 512, 0, stream>>>(from, size, static_cast<T*>(out), count, int(op));
    return cudaGetLastError();
  };
  switch (dtype) {
    case FK_F64: return go(double{});
    case FK_F32: return go(float{});
    case FK_F16: return go(__half{});
    case FK_BF16: return go(__nv_bfloat16{});
    case FK_I64: return go(static_cast<long long>(0));
    case FK_I32: return go(0);
    case FK_I8: return go(static_cast<signed char>(0));
    case FK_U8: return go(static_cast<unsigned char>(0));
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace fk::cuda
