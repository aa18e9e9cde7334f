// fk-host: paged_attention, plugin template_tvm_ffi_cuda 0.1.0
// SPDX-License-Identifier: Apache-2.0
// paged_attention: attention of ragged queries over a paged cache. A warp has a query of a head.
// arguments: q, k_cache, v_cache, block_tables, cu_seqlens, seq_lens, sinks, out
// arguments: scale, window, softcap
// The contract as a page: fk-host show paged_attention
// edition 1
// claims deterministic batch_invariant
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::Optional;
using tvm::ffi::TensorView;

namespace {

__device__ float value(float x) { return x; }
__device__ float value(__half x) { return __half2float(x); }
__device__ float value(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T rounded(float x) {
  return T(x);
}

cudaStream_t stream_of(const TensorView& tensor) {
  return static_cast<cudaStream_t>(
      TVMFFIEnvGetStream(tensor.device().device_type, tensor.device().device_id));
}

void launched() {
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) TVM_FFI_THROW(RuntimeError) << cudaGetErrorString(status);
}

// Calls with a null pointer to an element of the tensor's dtype.
template <class F>
void with_type(const TensorView& tensor, F call) {
  const DLDataType type = tensor.dtype();
  if (type.bits == 32)
    call(static_cast<float*>(nullptr));
  else if (type.code == kDLBfloat)
    call(static_cast<__nv_bfloat16*>(nullptr));
  else
    call(static_cast<__half*>(nullptr));
}

void same(const TensorView& one, const TensorView& other) {
  if (one.dtype().code != other.dtype().code || one.dtype().bits != other.dtype().bits)
    TVM_FFI_THROW(TypeError) << "this template takes one dtype for all tensors of numbers";
}

constexpr int kWidth = 256;  // of a head, at most: eight values in each thread

struct Sizes {
  int64_t tokens, requests, heads, group, width, page, pages;
  int64_t q[2], k[3], v[3];  // strides
  int64_t window;
  float scale, softcap;
};

template <class T>
__global__ void attend(const T* q, const T* k, const T* v, const int* tables, const int* starts,
                       const int* lengths, const float* sinks, T* out, Sizes s) {
  const int64_t at = blockIdx.x * int64_t{4} + threadIdx.x / 32, t = at / s.heads;
  const int64_t head = at % s.heads;
  const int lane = threadIdx.x % 32;
  if (t >= s.tokens) return;
  int64_t b = 0;
  while (b + 1 < s.requests && starts[b + 1] <= t) ++b;
  const int64_t last = lengths[b] - (starts[b + 1] - t);
  const int64_t first = s.window > 0 && last - s.window + 1 > 0 ? last - s.window + 1 : 0;
  float query[kWidth / 32], sums[kWidth / 32] = {};
  for (int i = 0; i < kWidth / 32; ++i) {
    const int64_t d = i * 32 + lane;
    query[i] = d < s.width ? value(q[t * s.q[0] + head * s.q[1] + d]) : 0;
  }
  // The sums are those of weights exp(score - most).
  float most = sinks ? sinks[head] : -INFINITY, total = sinks ? 1 : 0;
  for (int64_t key = first; key <= last; ++key) {
    const int64_t slot = tables[b * s.pages + key / s.page], row = key % s.page;
    const T* keys = k + slot * s.k[0] + row * s.k[1] + head / s.group * s.k[2];
    const T* values = v + slot * s.v[0] + row * s.v[1] + head / s.group * s.v[2];
    float score = 0;
    for (int i = 0; i < kWidth / 32; ++i)
      if (i * 32 + lane < s.width) score += query[i] * value(keys[i * 32 + lane]);
    for (int step = 16; step; step /= 2) score += __shfl_xor_sync(0xffffffff, score, step);
    score *= s.scale;
    if (s.softcap > 0) score = s.softcap * tanhf(score / s.softcap);
    const float now = fmaxf(most, score), old = expf(most - now), weight = expf(score - now);
    total = total * old + weight;
    for (int i = 0; i < kWidth / 32; ++i)
      if (i * 32 + lane < s.width) sums[i] = sums[i] * old + weight * value(values[i * 32 + lane]);
    most = now;
  }
  for (int i = 0; i < kWidth / 32; ++i)
    if (i * 32 + lane < s.width) out[at * s.width + i * 32 + lane] = rounded<T>(sums[i] / total);
}

}  // namespace

// Raises an error for cases which the function does not take. Tensors have no data here.
void paged_attention_supports(TensorView q, TensorView k_cache, TensorView, TensorView, TensorView,
                              TensorView, Optional<TensorView>, TensorView, double, int64_t,
                              double) {
  same(q, k_cache);
  if (q.size(2) > kWidth) TVM_FFI_THROW(ValueError) << "heads of at most 256 values";
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(paged_attention_supports, paged_attention_supports);

void paged_attention(TensorView q, TensorView k_cache, TensorView v_cache, TensorView block_tables,
                     TensorView cu_seqlens, TensorView seq_lens, Optional<TensorView> sinks,
                     TensorView out, double scale, int64_t window, double softcap) {
  if (out.numel() == 0) return;
  const Sizes s{q.size(0),
                seq_lens.size(0),
                q.size(1),
                q.size(1) / k_cache.size(2),
                q.size(2),
                k_cache.size(1),
                block_tables.size(1),
                {q.stride(0), q.stride(1)},
                {k_cache.stride(0), k_cache.stride(1), k_cache.stride(2)},
                {v_cache.stride(0), v_cache.stride(1), v_cache.stride(2)},
                window,
                static_cast<float>(scale),
                static_cast<float>(softcap)};
  with_type(q, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    attend<T><<<static_cast<unsigned>((s.tokens * s.heads + 3) / 4), 128, 0, stream_of(q)>>>(
        static_cast<const T*>(q.data_ptr()), static_cast<const T*>(k_cache.data_ptr()),
        static_cast<const T*>(v_cache.data_ptr()), static_cast<const int*>(block_tables.data_ptr()),
        static_cast<const int*>(cu_seqlens.data_ptr()),
        static_cast<const int*>(seq_lens.data_ptr()),
        sinks.has_value() ? static_cast<const float*>(sinks.value().data_ptr()) : nullptr,
        static_cast<T*>(out.data_ptr()), s);
  });
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(paged_attention, paged_attention);
