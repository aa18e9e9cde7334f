// fk-host: rms_norm, plugin template_tvm_ffi_cuda 0.1.0
// SPDX-License-Identifier: Apache-2.0
// rms_norm: out = x / sqrt(mean(x^2) + eps) * weight; x + residual comes first and is kept there
// arguments: x, residual, weight, out, eps
// The contract as a page: fk-host show rms_norm
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

// A block of 256 threads has a row.
template <class T>
__global__ void norm(const T* x, T* residual, const T* weight, T* out, int64_t width, float eps) {
  __shared__ float parts[256];
  const int64_t first = blockIdx.x * width;
  float squares = 0;
  for (int64_t c = threadIdx.x; c < width; c += 256) {
    float v = value(x[first + c]);
    if (residual) {
      residual[first + c] = rounded<T>(v + value(residual[first + c]));
      v = value(residual[first + c]);
    }
    squares += v * v;
  }
  parts[threadIdx.x] = squares;
  for (unsigned step = 128; step; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];
  }
  __syncthreads();
  const float scale = rsqrtf(parts[0] / static_cast<float>(width) + eps);
  for (int64_t c = threadIdx.x; c < width; c += 256) {
    const float v = value(residual ? residual[first + c] : x[first + c]) * scale;
    out[first + c] = rounded<T>(weight ? v * value(weight[c]) : v);
  }
}

}  // namespace

// Raises an error for cases which the function does not take. Tensors have no data here.
void rms_norm_supports(TensorView x, Optional<TensorView> residual, Optional<TensorView> weight,
                       TensorView, double) {
  if (residual.has_value()) same(x, *residual);
  if (weight.has_value()) same(x, *weight);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm_supports, rms_norm_supports);

void rms_norm(TensorView x, Optional<TensorView> residual, Optional<TensorView> weight,
              TensorView out, double eps) {
  if (x.numel() == 0) return;
  with_type(x, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    norm<T><<<static_cast<unsigned>(x.size(0)), 256, 0, stream_of(x)>>>(
        static_cast<const T*>(x.data_ptr()),
        residual.has_value() ? static_cast<T*>(residual.value().data_ptr()) : nullptr,
        weight.has_value() ? static_cast<const T*>(weight.value().data_ptr()) : nullptr,
        static_cast<T*>(out.data_ptr()), x.size(1), static_cast<float>(eps));
  });
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm, rms_norm);
