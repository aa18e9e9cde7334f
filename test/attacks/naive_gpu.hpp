// SPDX-License-Identifier: Apache-2.0
// The GPU of naive_judge.cpp as scripts use one: device 0, plain cudaMalloc, one stream, one pair
// of events for all times. Every failure is said as the verdict and ends the process with 1; a
// build without CUDA says so with 2.
#pragma once
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#ifdef FK_NAIVE_CUDA
#include <cuda_runtime.h>
#endif

namespace naive {

#ifdef FK_NAIVE_CUDA
class Gpu {
 public:
  Gpu() {
    // Another stream's work is not waited for, nor is the default stream's.
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check(cudaEventCreate(&begin_));
    check(cudaEventCreate(&end_));
  }
  void* stream() const { return stream_; }
  // Zeroed.
  void* take(size_t bytes) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes));
    check(cudaMemsetAsync(memory, 0, bytes, stream_));
    wait();
    return memory;
  }
  void give(void* memory) { check(cudaFree(memory)); }
  // Between the host and the device, or on it; behind what the stream has to do.
  void copy(void* to, const void* from, size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
    wait();
  }
  void wait() { check(cudaStreamSynchronize(stream_)); }
  // The seconds of the work that `call` puts on the stream.
  template <class Call>
  double seconds(Call call) {
    float ms = 0;
    check(cudaEventRecord(begin_, stream_));
    call();
    check(cudaEventRecord(end_, stream_));
    check(cudaEventSynchronize(end_));
    check(cudaEventElapsedTime(&ms, begin_, end_));
    return 1e-3 * static_cast<double>(ms);
  }

 private:
  static void check(cudaError_t status) {
    if (status == cudaSuccess) return;
    std::printf("naive: failed: %s\n", cudaGetErrorString(status));
    std::fflush(nullptr);
    std::_Exit(1);
  }
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};
#else
class Gpu {
 public:
  Gpu() {
    std::fprintf(stderr, "built without CUDA\n");
    std::exit(2);
  }
  void* stream() const { return nullptr; }
  void* take(size_t) { return nullptr; }
  void give(void*) {}
  void copy(void*, const void*, size_t) {}
  void wait() {}
  template <class Call>
  double seconds(Call call) {
    call();
    return 0;
  }
};
#endif

}  // namespace naive
