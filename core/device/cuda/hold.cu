// SPDX-License-Identifier: Apache-2.0
// Holds a stream with a kernel that waits for the host, and finds settings that code has changed
// (hold.hpp).
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

// Waits until the host sets *go, or until `most_ns` nanoseconds are over.
__global__ void wait_until(const volatile int* go, unsigned long long most_ns) {
  const auto now = [] {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
  };
  const unsigned long long begin = now();
  while (!*go && now() - begin < most_ns) __nanosleep(2000);
}

struct Limit {
  cudaLimit which;
  const char* name;
};
// The stack size of a thread is not listed: the driver itself raises it for kernels with a larger
// stack.
constexpr std::array<Limit, 4> kLimits{{
    {cudaLimitPersistingL2CacheSize, "persisting part of the L2 cache"},
    {cudaLimitMaxL2FetchGranularity, "granularity of fetches into the L2 cache"},
    {cudaLimitMallocHeapSize, "heap of kernels"},
    {cudaLimitPrintfFifoSize, "buffer of printf() in kernels"},
}};

}  // namespace

Settings Settings::of(cudaStream_t stream) {
  Settings out;
  for (size_t i = 0; i < kLimits.size(); ++i)
    if (cudaDeviceGetLimit(&out.limits[i], kLimits[i].which) != cudaSuccess) (void)cudaGetLastError();
  cudaStreamAttrValue value{};
  if (cudaStreamGetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &value) == cudaSuccess)
    out.window_bytes = value.accessPolicyWindow.num_bytes;
  value = {};
  if (cudaStreamGetAttribute(stream, cudaStreamAttributeSynchronizationPolicy, &value) == cudaSuccess)
    out.synchronization = static_cast<int>(value.syncPolicy);
  (void)cudaGetLastError();
  return out;
}

void* current_context() {
  static auto* const get = driver<CUresult(CUcontext*)>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  return get && get(&context) == CUDA_SUCCESS ? context : nullptr;
}

std::string left_behind(int device, void* context, cudaStream_t stream, const Settings& settings) {
  static auto* const set = driver<CUresult(CUcontext)>("cuCtxSetCurrent");
  std::string out;
  const auto add = [&](const std::string& what) { out += (out.empty() ? "" : "; ") + what; };
  // Checked before anything is restored, because the current device follows the context.
  int now = -1;
  const bool other_device = cudaGetDevice(&now) == cudaSuccess && now != device;
  const bool other_context = current_context() != context;
  if (other_device) add("device " + std::to_string(now) + " is current instead of " + std::to_string(device));
  if (other_context) add("another context is current on the thread than before");
  if (other_device) (void)cudaSetDevice(device);
  if (other_context && set) (void)set(static_cast<CUcontext>(context));
  // The default mode of a thread.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  if (cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess && mode != cudaStreamCaptureModeGlobal)
    add("the thread's mode of stream captures was changed");
  // cudaErrorNotReady is an answer to a query, although the runtime keeps it as an error.
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess && error != cudaErrorNotReady)
    add(std::string("an error is left that nobody has asked for: ") + cudaGetErrorName(error));
  // The device's own context is current again here.
  const Settings left = Settings::of(stream);
  for (size_t i = 0; i < kLimits.size(); ++i) {
    if (left.limits[i] == settings.limits[i]) continue;
    add(std::string("the device's limit of the ") + kLimits[i].name + " is " + std::to_string(left.limits[i]) + " instead of " +
        std::to_string(settings.limits[i]));
    (void)cudaDeviceSetLimit(kLimits[i].which, settings.limits[i]);
  }
  cudaStreamAttrValue value{};
  if (left.window_bytes != settings.window_bytes) {
    add("the stream is left with a window of " + std::to_string(left.window_bytes) + " bytes that stay in the L2 cache");
    (void)cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &value);
    (void)cudaCtxResetPersistingL2Cache();
  }
  if (left.synchronization != settings.synchronization) {
    add("the stream is left with another way to wait for it");
    value.syncPolicy = static_cast<cudaSynchronizationPolicy>(settings.synchronization);
    (void)cudaStreamSetAttribute(stream, cudaStreamAttributeSynchronizationPolicy, &value);
  }
  (void)cudaGetLastError();
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
  (void)cudaGetLastError();  // an error of earlier code
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
