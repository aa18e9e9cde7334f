// SPDX-License-Identifier: Apache-2.0
// As much of CUDA as this project's kernels use, for a CPU and a C++ compiler (machine.hpp runs
// them).
#pragma once
#include <set>
#include "lanes.hpp"

#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local  // of a launch without clusters; declared_shared.hpp
#define __launch_bounds__(...)
#define __grid_constant__

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace fk_emulation {

// Few, so that a persistent block has more than one turn in a small case.
inline constexpr int kProcessors = 8;

}  // namespace fk_emulation

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidConfiguration = 9 };
enum cudaLaunchAttributeID {
  cudaLaunchAttributeProgrammaticStreamSerialization,
  cudaLaunchAttributePreferredSharedMemoryCarveout,
  cudaLaunchAttributeClusterDimension
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize,
  cudaFuncAttributeNonPortableClusterSizeAllowed
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount };
inline constexpr int cudaSharedmemCarveoutMaxShared = 100;
inline const char* cudaGetErrorString(cudaError_t) { return "invalid configuration argument"; }
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
    unsigned sharedMemCarveout;
    struct {
      unsigned x, y, z;
    } clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};
inline dim3 fk_cluster_of(const cudaLaunchConfig_t& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (const auto& a = config.attrs[i]; a.id == cudaLaunchAttributeClusterDimension)
      return {a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z};
  return {};
}
// Kernels that may have clusters of 16 blocks instead of 8.
inline std::set<const void*>& fk_larger_clusters() {
  static std::set<const void*> kernels;
  return kernels;
}
template <class... Parameters, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               const Args&... args) {
  const dim3 grid = config->gridDim, block = config->blockDim, cluster = fk_cluster_of(*config);
  const unsigned together = cluster.x * cluster.y * cluster.z;
  const unsigned most =
      fk_larger_clusters().count(reinterpret_cast<const void*>(kernel)) != 0 ? 16 : 8;
  if (!grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535 || !block.x ||
      block.x > 1024 || block.y * block.z != 1 || config->dynamicSmemBytes > 227 << 10 ||
      !together || together > most || grid.x % cluster.x || grid.y % cluster.y ||
      grid.z % cluster.z || (together > 1 && block.x % 32))
    return cudaErrorInvalidConfiguration;
  fk_emulation::run_grid(grid, cluster, block.x, config->dynamicSmemBytes,
                         [&] { kernel(args...); });
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel kernel, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed && value)
    fk_larger_clusters().insert(reinterpret_cast<const void*>(kernel));
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveClusters(int* count, Kernel, const cudaLaunchConfig_t* config) {
  const dim3 cluster = fk_cluster_of(*config);
  *count = fk_emulation::kProcessors / static_cast<int>(cluster.x * cluster.y * cluster.z);
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  return *value = fk_emulation::kProcessors, cudaSuccess;
}

inline void __syncthreads() { fk_emulation::wait(fk_emulation::block().threads); }
inline void __syncwarp(unsigned = 0xffffffffu) { fk_emulation::wait(fk_emulation::warp()); }
inline void __threadfence_block() {}
inline void __threadfence() {}
inline void __threadfence_system() {}
[[noreturn]] inline void __trap() { fk_emulation::refuse("a kernel gave up"); }
inline unsigned fk_lane() { return fk_emulation::machine.current % 32; }
template <class T>
T __shfl_sync(unsigned, T v, int from) {
  return fk_emulation::exchange(v, static_cast<unsigned>(from) % 32);
}
template <class T>
T __shfl_xor_sync(unsigned, T v, int mask) {
  return fk_emulation::exchange(v, fk_lane() ^ static_cast<unsigned>(mask));
}
// The values of all 32 lanes, given to each of them.
template <class T>
std::array<T, 32> fk_all_lanes(T v) {
  auto* const values =
      fk_emulation::brought<std::array<T, 32>>(fk_emulation::cluster().warps.size());
  const unsigned warp = fk_emulation::machine.current / 32;
  values[warp][fk_lane()] = v;
  fk_emulation::wait(fk_emulation::warp());
  return values[warp];
}
inline unsigned __ballot_sync(unsigned, bool v) {
  const auto all = fk_all_lanes(v);
  unsigned bits = 0;
  for (unsigned i = 0; i < 32; ++i) bits |= unsigned{all[i]} << i;
  return bits;
}
inline bool __any_sync(unsigned mask, bool v) { return __ballot_sync(mask, v) != 0; }
template <class T>
unsigned __match_any_sync(unsigned, T v) {
  const auto all = fk_all_lanes(v);
  unsigned bits = 0;
  for (unsigned i = 0; i < 32; ++i) bits |= unsigned{all[i] == v} << i;
  return bits;
}
template <class T>
T __reduce_add_sync(unsigned, T v) {
  T sum = 0;
  for (const T each : fk_all_lanes(v)) sum += each;
  return sum;
}
template <class T>
T __ldcg(const T* at) {
  return *at;
}
template <class T, class V>
T atomicAdd(T* at, V v) {
  const T old = *at;
  *at = static_cast<T>(old + static_cast<T>(v));
  return old;
}
template <class T, class V>
T atomicMax(T* at, V v) {
  const T old = *at;
  *at = std::max(old, static_cast<T>(v));
  return old;
}
inline uint32_t atomicOr(uint32_t* at, uint32_t v) {
  const uint32_t old = *at;
  *at |= v;
  return old;
}
// Byte i of the result is the one that digit i of `which` names, of b and a together.
inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t which) {
  const uint64_t both = uint64_t{b} << 32 | a;
  uint32_t v = 0;
  for (unsigned i = 0; i < 4; ++i)
    v |= static_cast<uint32_t>(both >> (which >> i * 4 & 7) * 8 & 0xff) << i * 8;
  return v;
}
inline int __popc(uint32_t v) { return __builtin_popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
template <class A, class B>
auto min(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(a) < static_cast<C>(b) ? static_cast<C>(a) : static_cast<C>(b);
}
template <class A, class B>
auto max(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(a) < static_cast<C>(b) ? static_cast<C>(b) : static_cast<C>(a);
}
inline float __expf(float v) { return std::exp(v); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float rsqrtf(float v) { return 1 / std::sqrt(v); }
inline uint32_t __float_as_uint(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, 4);
  return bits;
}
inline float __uint_as_float(uint32_t bits) {
  float v;
  std::memcpy(&v, &bits, 4);
  return v;
}
inline int64_t __double_as_longlong(double v) {
  int64_t bits;
  std::memcpy(&bits, &v, 8);
  return bits;
}
