// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/hold.hpp"

#include <cuda.h>

namespace fk::cuda {

namespace {

template <class F>
F* driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  if (cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result) != cudaSuccess) (void)cudaGetLastError();
  return reinterpret_cast<F*>(found);
}

__global__ void wait_until(const volatile int* go, unsigned long long most_ns) {
  const auto now = [] {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
  };
  const unsigned long long begin = now();
  while (!*go && now() - begin < most_ns) __nanosleep(2000);
}

}  // namespace

void* current_context() {
  static auto* const get = driver<CUresult(CUcontext*)>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  return get && get(&context) == CUDA_SUCCESS ? context : nullptr;
}

std::string left_behind(int device, void* context) {
  static auto* const set = driver<CUresult(CUcontext)>("cuCtxSetCurrent");
  std::string out;
  const auto add = [&](const std::string& what) { out += (out.empty() ? "" : "; ") + what; };
  // Asked before anything is put back: the current device follows the context.
  int now = -1;
  const bool other_device = cudaGetDevice(&now) == cudaSuccess && now != device;
  const bool other_context = current_context() != context;
  if (other_device) add("device " + std::to_string(now) + " is current instead of " + std::to_string(device));
  if (other_context) add("another context is current on the thread than before");
  if (other_device) (void)cudaSetDevice(device);
  if (other_context && set) (void)set(static_cast<CUcontext>(context));
  // A thread that nobody has told anything captures like this.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  if (cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess && mode != cudaStreamCaptureModeGlobal)
    add("the thread's mode of stream captures was changed");
  // That something is not ready is an answer, which is kept as if it were an error.
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess && error != cudaErrorNotReady)
    add(std::string("an error is left that nobody has asked for: ") + cudaGetErrorName(error));
  return out;
}

Hold::~Hold() { end(); }  // its memory stays: a kernel may still look at it

cudaError_t Hold::make() {
  if (!beside_)
    if (const cudaError_t made = cudaStreamCreateWithFlags(&beside_, cudaStreamNonBlocking); made != cudaSuccess) return made;
  return go_ ? cudaSuccess : cudaHostAlloc(reinterpret_cast<void**>(&go_), sizeof *go_, cudaHostAllocMapped | cudaHostAllocPortable);
}

cudaError_t Hold::begin(cudaStream_t stream, double most_s) {
  if (const cudaError_t made = make(); made != cudaSuccess) return made;
  __atomic_store_n(go_, 0, __ATOMIC_SEQ_CST);
  (void)cudaGetLastError();  // of code that was called before
  wait_until<<<1, 1, 0, stream>>>(go_, static_cast<unsigned long long>(most_s * 1e9));
  return cudaGetLastError();
}

void Hold::end() {
  if (go_) __atomic_store_n(go_, 1, __ATOMIC_SEQ_CST);
}

cudaError_t Hold::peek(void* host, const void* device, int64_t bytes) {
  if (const cudaError_t made = make(); made != cudaSuccess) return made;
  const cudaError_t copied = cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, beside_);
  return copied == cudaSuccess ? cudaStreamSynchronize(beside_) : copied;
}

}  // namespace fk::cuda
