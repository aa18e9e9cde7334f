// SPDX-License-Identifier: Apache-2.0
// What the ops of this provider share: 16-bit elements in vectors of eight, dispatch over their two types,
// and the part of an op's class that is always the same. float32 is left to cuda_reference.
#pragma once
#include <algorithm>
#include <stdexcept>
#include <string>

#include "fk/cpp/plugin.hpp"
#include "ptx.cuh"

namespace fkc {

// How K or a row is divided depends on the number of rows (`batch_invariant` 0), or not.
constexpr fk_claims claims_of(int32_t graph, int32_t batch_invariant) {
  return {FK_END(fk_claims, sm), kDevice, graph, 1, batch_invariant, FK_ACCUMULATE_F32, 0, kSmCount, kSm};
}
inline constexpr fk_claims kClaims = claims_of(FK_GRAPH_ALWAYS, 1);

__device__ inline float value_of(float v) { return v; }
template <class T> __device__ float value_of(T v) { return to_float(v); }
template <class O> __device__ O as(float v) {
  if constexpr (sizeof(O) == 4) return v;
  else return from_float<O>(v);
}

// Every kernel here is launched so that it may start while the one before it ends (programmatic dependent
// launch): it must not touch what others write before it has called this. The next one is let in at once.
__device__ inline void wait_for_inputs() {
  let_next_start();
  wait_for_previous();
}

// The same where the next kernel reads at once what kernels before this one have written.
__device__ inline void inputs_then_next() {
  wait_for_previous();
  let_next_start();
}

// Eight elements, loaded and stored as 16 bytes.
template <class T> union Pack {
  uint4 raw;
  T at[8];
};
template <class T> __device__ Pack<T> load8(const T* from) {
  Pack<T> p;
  p.raw = *reinterpret_cast<const uint4*>(from);
  return p;
}
template <class T> __device__ void store8(T* to, const Pack<T>& p) { *reinterpret_cast<uint4*>(to) = p.raw; }

// Two neighbouring elements in a word.
template <class T> __device__ uint32_t pair(float a, float b) {
  alignas(4) const T two[2] = {from_float<T>(a), from_float<T>(b)};
  return *reinterpret_cast<const uint32_t*>(two);
}

// Eight elements as float32, of which eight are 32 bytes.
__device__ inline void load_floats(const float* from, float (&to)[8]) {
#pragma unroll
  for (int k = 0; k < 8; k += 4) {
    const float4 v = *reinterpret_cast<const float4*>(from + k);
    to[k] = v.x, to[k + 1] = v.y, to[k + 2] = v.z, to[k + 3] = v.w;
  }
}
template <class T> __device__ void load_floats(const T* from, float (&to)[8]) {
  const Pack<T> p = load8(from);
#pragma unroll
  for (int k = 0; k < 8; ++k) to[k] = to_float(p.at[k]);
}
__device__ inline void store_floats(float* to, const float (&v)[8]) {
#pragma unroll
  for (int k = 0; k < 8; k += 4) *reinterpret_cast<float4*>(to + k) = make_float4(v[k], v[k + 1], v[k + 2], v[k + 3]);
}
template <class T> __device__ void store_floats(T* to, const float (&v)[8]) {
  Pack<T> p;
#pragma unroll
  for (int k = 0; k < 8; ++k) p.at[k] = from_float<T>(v[k]);
  store8(to, p);
}

// The angles of eight pairs, from a table where the sines are `sines` behind the cosines.
struct Angles {
  float cosine[8], sine[8];
  __device__ Angles(const float* table, int sines) {
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
      *reinterpret_cast<float4*>(cosine + j) = *reinterpret_cast<const float4*>(table + j);
      *reinterpret_cast<float4*>(sine + j) = *reinterpret_cast<const float4*>(table + sines + j);
    }
  }
};
// Eight pairs, one in each vector; interleaved, neighbours are pairs.
template <bool kInterleaved = false, class T> __device__ void rotate_pairs(Pack<T>& a, Pack<T>& b, const Angles& by) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    T &first = kInterleaved ? (j < 4 ? a : b).at[j % 4 * 2] : a.at[j], &second = kInterleaved ? (j < 4 ? a : b).at[j % 4 * 2 + 1] : b.at[j];
    const float u = to_float(first), w = to_float(second);
    first = from_float<T>(u * by.cosine[j] - w * by.sine[j]);
    second = from_float<T>(w * by.cosine[j] + u * by.sine[j]);
  }
}

// The sum over a block of whole warps, in every thread.
__device__ inline float block_sum(float v) {
  __shared__ float warp[32];
  for (int k = 16; k > 0; k >>= 1) v += __shfl_xor_sync(0xffffffffu, v, k);
  if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? warp[threadIdx.x % 32] : 0;
  for (int k = 16; k > 0; k >>= 1) v += __shfl_xor_sync(0xffffffffu, v, k);
  return v;
}

// A weight or bias: of the dtype of x, float32, or absent.
template <class T> struct Parameter {
  const T* narrow;
  const float* wide;
  __device__ void load(int at, float absent, float (&to)[8]) const {
    if (narrow) {
      const Pack<T> p = load8(narrow + at);
#pragma unroll
      for (int k = 0; k < 8; ++k) to[k] = to_float(p.at[k]);
      return;
    }
#pragma unroll
    for (int k = 0; k < 8; k += 4) {
      float4 four = {absent, absent, absent, absent};
      if (wide) four = *reinterpret_cast<const float4*>(wide + at + k);
      to[k] = four.x, to[k + 1] = four.y, to[k + 2] = four.z, to[k + 3] = four.w;
    }
  }
  __device__ float one(int64_t at) const { return narrow ? to_float(narrow[at]) : wide[at]; }
};
template <class T> Parameter<T> parameter(const fk_in* view) {
  if (!view) return {};
  if (FK_DTYPE(view) == FK_F32) return {nullptr, fk::data<float>(view)};
  return {fk::data<T>(view), nullptr};
}

inline cudaStream_t stream(const fk_ctx& ctx) { return static_cast<cudaStream_t>(ctx.stream); }
// Kernels ask for the same division of the first cache, the largest shared memory: one that asks for another cannot start beside
// those that run. Grids of so many blocks have time to wait for it, and need the cache for what is on its way to them.
constexpr int64_t kBlocksOfMany = 4096;

template <class... P, class... A>
void launch_clusters(void (*kernel)(P...), dim3 cluster, dim3 grid, dim3 block, size_t shared, const fk_ctx& ctx, A... arguments) {
  cudaLaunchAttribute attributes[3]{};
  unsigned count = 0;
  attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  if (int64_t(grid.x) * grid.y * grid.z < kBlocksOfMany) {
    attributes[count].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attributes[count++].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  }
  if (cluster.x * cluster.y * cluster.z > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {cluster.x, cluster.y, cluster.z};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream(ctx);
  config.attrs = attributes;
  config.numAttrs = count;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...);
  if (status != cudaSuccess) throw std::runtime_error(std::string("launch: ") + cudaGetErrorString(status));
}
template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, const fk_ctx& ctx, A... arguments) {
  launch_clusters(kernel, dim3(1), grid, block, shared, ctx, arguments...);
}
inline int64_t cdiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline void need_16bit(const fk_in* view) {
  if (FK_DTYPE(view) != FK_BF16 && FK_DTYPE(view) != FK_F16) throw fk::unsupported{"float16 and bfloat16 only"};
}
inline void need(bool condition, const char* why) {
  if (!condition) throw fk::unsupported{why};
}
// So that vectors of 16 bytes can be loaded from all rows: of views with a last axis of whole vectors.
inline void need_aligned(const fk_in* view) { need(fk_alignment(view) == FK_ALIGNMENT, "rows must start at multiples of 16 bytes"); }

inline void need_parameter(const fk_in* view, const fk_in* x) {
  need(!view || FK_DTYPE(view) == FK_F32 || FK_DTYPE(view) == FK_DTYPE(x), "weight and bias: the dtype of x or float32 only");
}

template <class F> void dispatch(const fk_in* view, F f) {
  if (FK_DTYPE(view) == FK_BF16) f(__nv_bfloat16{});
  else f(__half{});
}

// Everything but supports() and forward().
template <class Op> struct Base {
  using op = Op;
  static constexpr fk_claims claims = kClaims;
  const typename Op::init& init;
  const typename Op::weights& weights;
  Base(const fk_host&, const typename Op::init& i, const typename Op::weights& w) : init(i), weights(w) {}
  void prepare(const typename Op::forward&, const fk_memory&) {}
};

}  // namespace fkc
