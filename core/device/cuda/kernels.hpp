// SPDX-License-Identifier: Apache-2.0
// The host's own kernels, for cuda.cpp.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace fk::cuda {

// Elements [0, count) of random.hpp's normal stream; `bits`: 32 (float32), 16 (bfloat16), -16
// (float16).
cudaError_t fill_normal(void* target, int bits, int64_t count, uint64_t seed, float mean,
                        float stddev, cudaStream_t stream);
// Adds a hash of every word and its position to *sum, which is on the device.
cudaError_t add_checksum(const void* data, int64_t words, unsigned long long* sum,
                         cudaStream_t stream);

// The same for parts of any size, each with its own sum; `parts` and `sums` are on the device.
struct Part {
  const void* data;
  int64_t bytes;
};
cudaError_t add_checksums(const Part* parts, int count, unsigned long long* sums,
                          cudaStream_t stream);
// Copies `from` to `to`, or writes bits as below if `from` is null. Addresses are multiples of 8
// bytes and ranges do not overlap; `moves` is on the device.
struct Move {
  void* to;
  const void* from;
  int64_t bytes;
  bool random;
};
cudaError_t move_parts(const Move* moves, int count, cudaStream_t stream);
// Copies tokens; values outside of [0, vocab_size) become 0.
cudaError_t copy_tokens(int64_t* to, const int64_t* from, int64_t count, int64_t vocab_size,
                        cudaStream_t stream);
// Writes pseudorandom bits, equal in every call.
cudaError_t fill_random_bits(void* target, int64_t bytes, cudaStream_t stream);

}  // namespace fk::cuda
