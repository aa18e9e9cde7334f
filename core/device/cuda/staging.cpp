// SPDX-License-Identifier: Apache-2.0
// Copies in pieces, each through one of two pinned buffers (staging.hpp).
#include "core/device/cuda/staging.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/base/parts.hpp"

namespace fk::cuda {

namespace {

// bytes of a buffer; smallest copy that uses buffers
constexpr int64_t kBuffer = int64_t{32} << 20, kLeast = int64_t{16} << 20;

void copy(void* to, const void* from, int64_t bytes) {
  in_pieces(bytes, int64_t{1} << 20, [&](int64_t first, int64_t size) {
    std::memcpy(static_cast<std::byte*>(to) + first, static_cast<const std::byte*>(from) + first,
                static_cast<std::size_t>(size));
  });
}

}  // namespace

bool Staging::ready(int64_t bytes) {
  if (bytes < kLeast) return false;
  if (!tried_) {
    tried_ = there_ = true;
    for (Buffer& b : buffers_)
      there_ = there_ &&
               cudaMallocHost(&b.memory, static_cast<std::size_t>(kBuffer)) == cudaSuccess &&
               cudaEventCreateWithFlags(&b.done, cudaEventDisableTiming) == cudaSuccess;
    if (!there_) (void)cudaGetLastError();
  }
  return there_;
}

bool Staging::upload(void* device, const void* host, int64_t bytes, cudaStream_t stream,
                     cudaError_t& status) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !ready(bytes)) return false;
  status = cudaSuccess;
  for (int64_t at = 0, i = 0; at < bytes && status == cudaSuccess; at += kBuffer, ++i) {
    Buffer& b = buffers_[static_cast<std::size_t>(i % 2)];
    const int64_t count = std::min(kBuffer, bytes - at);
    status = cudaEventSynchronize(b.done);
    if (status != cudaSuccess) break;
    copy(b.memory, static_cast<const std::byte*>(host) + at, count);
    status = cudaMemcpyAsync(static_cast<std::byte*>(device) + at, b.memory,
                             static_cast<std::size_t>(count), cudaMemcpyHostToDevice, stream);
    if (status == cudaSuccess) status = cudaEventRecord(b.done, stream);
  }
  return true;
}

bool Staging::download(void* host, const void* device, int64_t bytes, cudaStream_t stream,
                       cudaError_t& status) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !ready(bytes)) return false;
  status = cudaSuccess;
  const int64_t pieces = (bytes + kBuffer - 1) / kBuffer;
  const auto size_of = [&](int64_t i) { return std::min(kBuffer, bytes - i * kBuffer); };
  const auto enqueue = [&](int64_t i) {
    Buffer& b = buffers_[static_cast<std::size_t>(i % 2)];
    status = cudaMemcpyAsync(b.memory, static_cast<const std::byte*>(device) + i * kBuffer,
                             static_cast<std::size_t>(size_of(i)), cudaMemcpyDeviceToHost, stream);
    if (status == cudaSuccess) status = cudaEventRecord(b.done, stream);
  };
  enqueue(0);
  for (int64_t i = 0; i < pieces && status == cudaSuccess; ++i) {
    if (i + 1 < pieces) enqueue(i + 1);
    if (status != cudaSuccess) break;
    const Buffer& b = buffers_[static_cast<std::size_t>(i % 2)];
    status = cudaEventSynchronize(b.done);
    if (status == cudaSuccess)
      copy(static_cast<std::byte*>(host) + i * kBuffer, b.memory, size_of(i));
  }
  return true;
}

}  // namespace fk::cuda
