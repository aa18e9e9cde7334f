// SPDX-License-Identifier: Apache-2.0
// The kernel of filters.hpp: one thread for each element of the result.
#include "filters.hpp"

#include <stdexcept>
#include <string>

namespace fkd {

namespace {
constexpr int kThreads = 256;

// A thread per written element.
template <class T> __global__ void turn(const T* from, T* to, int64_t size, int64_t channels, int64_t taps) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= size) return;
  const int64_t filter = i / (channels * taps), tap = i / channels % taps, channel = i % channels;
  to[i] = from[(filter * channels + channel) * taps + tap];
}
template <class T> void launch(const Filters& f, cudaStream_t stream) {
  const int64_t size = f.filters * f.channels * f.taps;
  turn<<<unsigned((size + kThreads - 1) / kThreads), kThreads, 0, stream>>>(static_cast<const T*>(f.from), static_cast<T*>(f.to), size, f.channels, f.taps);
}
}  // namespace

void channels_last(const Filters& f, cudaStream_t stream) {
  if (f.bytes == 2) launch<uint16_t>(f, stream);
  else launch<uint32_t>(f, stream);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    throw std::runtime_error(std::string("filters, channels last: ") + cudaGetErrorString(status));
}

}  // namespace fkd
