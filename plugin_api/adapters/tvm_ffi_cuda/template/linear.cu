// fk-host: linear, plugin template_tvm_ffi_cuda 0.1.0
// SPDX-License-Identifier: Apache-2.0
// linear: out = x @ weight^T + bias. A thread computes an element of out.
// arguments: x, weight, bias, out
// The contract as a page: fk-host show linear
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

template <class T>
__global__ void dots(const T* x, const T* weight, const T* bias, T* out, int64_t rows,
                     int64_t columns, int64_t inner, int64_t stride) {
  const int64_t at = blockIdx.x * int64_t{256} + threadIdx.x, m = at / columns, n = at % columns;
  if (m >= rows) return;
  float sum = 0;
  for (int64_t k = 0; k < inner; ++k)
    sum += value(x[m * stride + k]) * value(weight[n * inner + k]);
  out[at] = rounded<T>(bias ? sum + value(bias[n]) : sum);
}

}  // namespace

// Raises an error for cases which the function does not take. Tensors have no data here.
void linear_supports(TensorView x, TensorView weight, Optional<TensorView> bias, TensorView out) {
  same(x, weight);
  same(x, out);
  if (bias.has_value()) same(x, *bias);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(linear_supports, linear_supports);

void linear(TensorView x, TensorView weight, Optional<TensorView> bias, TensorView out) {
  if (out.numel() == 0) return;
  with_type(x, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    dots<T><<<static_cast<unsigned>((out.numel() + 255) / 256), 256, 0, stream_of(x)>>>(
        static_cast<const T*>(x.data_ptr()), static_cast<const T*>(weight.data_ptr()),
        bias.has_value() ? static_cast<const T*>(bias.value().data_ptr()) : nullptr,
        static_cast<T*>(out.data_ptr()), x.size(0), weight.size(0), x.size(1), x.stride(0));
  });
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(linear, linear);
