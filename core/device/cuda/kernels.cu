// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/kernels.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "core/tensor/random_element.hpp"

namespace fk::cuda {

namespace {

constexpr int kThreads = 256, kBlocks = 132 * 16;

__device__ void put(float* to, float v) { *to = v; }
__device__ void put(__nv_bfloat16* to, float v) { *to = __float2bfloat16_rn(v); }
__device__ void put(__half* to, float v) { *to = __float2half_rn(v); }

// A thread makes four elements, one block of Philox.
template <class T> __global__ void normal(T* target, int64_t count, uint64_t seed, float mean, float stddev) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i * 4 < count; i += int64_t{kThreads} * kBlocks) {
    uint32_t c0 = static_cast<uint32_t>(i), c1 = static_cast<uint32_t>(static_cast<uint64_t>(i) >> 32), c2 = 0, c3 = 0;
    philox_rounds(c0, c1, c2, c3, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
    float values[4];
    const float r0 = __fsqrt_rn(minus_two_log(c0)), r1 = __fsqrt_rn(minus_two_log(c2));
    float sine, cosine;
    sine_cosine(c1, sine, cosine);
    values[0] = r0 * cosine, values[1] = r0 * sine;
    sine_cosine(c3, sine, cosine);
    values[2] = r1 * cosine, values[3] = r1 * sine;
    for (int k = 0; k < 4; ++k)
      if (i * 4 + k < count) put(target + i * 4 + k, mean + stddev * values[k]);
  }
}

__global__ void hash_words(const unsigned long long* words, int64_t count, unsigned long long* sum) {
  unsigned long long own = 0;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += int64_t{kThreads} * kBlocks) {
    unsigned long long z = words[i] + 0x9E3779B97F4A7C15ull * static_cast<unsigned long long>(i + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    own += z ^ (z >> 31);
  }
  for (int k = 16; k > 0; k >>= 1) own += __shfl_xor_sync(0xffffffffu, own, k);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, own);
}

}  // namespace

cudaError_t fill_normal(void* target, int bits, int64_t count, uint64_t seed, float mean, float stddev, cudaStream_t stream) {
  if (bits == 32) normal<<<kBlocks, kThreads, 0, stream>>>(static_cast<float*>(target), count, seed, mean, stddev);
  else if (bits == 16) normal<<<kBlocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(target), count, seed, mean, stddev);
  else normal<<<kBlocks, kThreads, 0, stream>>>(static_cast<__half*>(target), count, seed, mean, stddev);
  return cudaGetLastError();
}

cudaError_t add_checksum(const void* data, int64_t words, unsigned long long* sum, cudaStream_t stream) {
  hash_words<<<kBlocks, kThreads, 0, stream>>>(static_cast<const unsigned long long*>(data), words, sum);
  return cudaGetLastError();
}

}  // namespace fk::cuda
