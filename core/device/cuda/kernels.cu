// SPDX-License-Identifier: Apache-2.0
// Kernels for random numbers, checksums, copies and fills (kernels.hpp). Random numbers have the
// same bits as the CPU's (core/tensor/random.hpp), and checksums have the values of checksum_of()
// (device.cpp).
#include "core/device/cuda/kernels.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "core/tensor/random_element.hpp"

namespace fk::cuda {

namespace {

// Blocks of a grid: 16 for each SM, or few for each of many small parts.
constexpr int kThreads = 256, kBlocks = 132 * 16, kPartBlocks = 4;

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

// The mixing function of SplitMix64.
__device__ unsigned long long mix(unsigned long long z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
__device__ unsigned long long hash(unsigned long long word, int64_t i) { return mix(word + 0x9E3779B97F4A7C15ull * static_cast<unsigned long long>(i + 1)); }

// Adds the sum of a warp's values to *sum.
__device__ void add(unsigned long long own, unsigned long long* sum) {
  for (int k = 16; k > 0; k >>= 1) own += __shfl_xor_sync(0xffffffffu, own, k);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, own);
}

__global__ void hash_words(const unsigned long long* words, int64_t count, unsigned long long* sum) {
  unsigned long long own = 0;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += int64_t{kThreads} * kBlocks) own += hash(words[i], i);
  add(own, sum);
}

// Eight bytes of memory with any start and end; bytes beyond the end are zero.
__device__ unsigned long long word_at(const unsigned char* data, int64_t bytes, int64_t i) {
  const int64_t at = i * 8;
  if (reinterpret_cast<uintptr_t>(data) % 8 == 0 && at + 8 <= bytes) return *reinterpret_cast<const unsigned long long*>(data + at);
  unsigned long long word = 0;
  for (int64_t k = 0; k < 8 && at + k < bytes; ++k) word |= static_cast<unsigned long long>(data[at + k]) << (8 * k);
  return word;
}

// blockIdx.y is the part. A part has few blocks, because most parts are a few KiB.
__global__ void hash_parts(const Part* parts, unsigned long long* sums) {
  const Part part = parts[blockIdx.y];
  const int64_t words = (part.bytes + 7) / 8;
  unsigned long long own = 0;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < words; i += int64_t{kThreads} * gridDim.x)
    own += hash(word_at(static_cast<const unsigned char*>(part.data), part.bytes, i), i);
  add(own, sums + blockIdx.y);
}

__global__ void valid_tokens(int64_t* to, const int64_t* from, int64_t count, int64_t vocab_size) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= count) return;
  const int64_t token = from[i];
  to[i] = token >= 0 && token < vocab_size ? token : 0;
}

// Writes word i of memory with any start and end.
__device__ void put_word(unsigned char* target, int64_t bytes, int64_t i, unsigned long long word) {
  if (reinterpret_cast<uintptr_t>(target) % 8 == 0 && i * 8 + 8 <= bytes) reinterpret_cast<unsigned long long*>(target)[i] = word;
  else
    for (int64_t k = i * 8; k < bytes && k < i * 8 + 8; ++k) target[k] = static_cast<unsigned char>(word >> (8 * (k - i * 8)));
}
__device__ unsigned long long random_word(int64_t i) { return hash(0x1234567, i); }

__global__ void random_bits(unsigned char* target, int64_t bytes) {
  const int64_t words = (bytes + 7) / 8;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < words; i += int64_t{kThreads} * kBlocks)
    put_word(target, bytes, i, random_word(i));
}

// blockIdx.y is the move.
__global__ void move(const Move* moves) {
  const Move m = moves[blockIdx.y];
  const int64_t words = (m.bytes + 7) / 8;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < words; i += int64_t{kThreads} * gridDim.x)
    put_word(static_cast<unsigned char*>(m.to), m.bytes, i,
             m.from ? word_at(static_cast<const unsigned char*>(m.from), m.bytes, i) : m.random ? random_word(i) : ~0ull);
}

// Clears errors of earlier code, which would otherwise be reported for the next launch.
void forget_errors() { (void)cudaGetLastError(); }

}  // namespace

cudaError_t fill_normal(void* target, int bits, int64_t count, uint64_t seed, float mean, float stddev, cudaStream_t stream) {
  forget_errors();
  if (bits == 32) normal<<<kBlocks, kThreads, 0, stream>>>(static_cast<float*>(target), count, seed, mean, stddev);
  else if (bits == 16) normal<<<kBlocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(target), count, seed, mean, stddev);
  else normal<<<kBlocks, kThreads, 0, stream>>>(static_cast<__half*>(target), count, seed, mean, stddev);
  return cudaGetLastError();
}

cudaError_t add_checksum(const void* data, int64_t words, unsigned long long* sum, cudaStream_t stream) {
  forget_errors();
  hash_words<<<kBlocks, kThreads, 0, stream>>>(static_cast<const unsigned long long*>(data), words, sum);
  return cudaGetLastError();
}

cudaError_t add_checksums(const Part* parts, int count, unsigned long long* sums, cudaStream_t stream) {
  forget_errors();
  if (count) hash_parts<<<dim3(kPartBlocks, static_cast<unsigned>(count)), kThreads, 0, stream>>>(parts, sums);
  return cudaGetLastError();
}

cudaError_t move_parts(const Move* moves, int count, cudaStream_t stream) {
  forget_errors();
  if (count) move<<<dim3(kPartBlocks, static_cast<unsigned>(count)), kThreads, 0, stream>>>(moves);
  return cudaGetLastError();
}

cudaError_t copy_tokens(int64_t* to, const int64_t* from, int64_t count, int64_t vocab_size, cudaStream_t stream) {
  forget_errors();
  if (count) valid_tokens<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(to, from, count, vocab_size);
  return cudaGetLastError();
}

cudaError_t fill_random_bits(void* target, int64_t bytes, cudaStream_t stream) {
  forget_errors();
  random_bits<<<kBlocks, kThreads, 0, stream>>>(static_cast<unsigned char*>(target), bytes);
  return cudaGetLastError();
}

}  // namespace fk::cuda
