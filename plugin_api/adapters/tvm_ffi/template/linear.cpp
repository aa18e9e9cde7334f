// fk-host: linear, plugin template_tvm_ffi 0.1.0
// SPDX-License-Identifier: Apache-2.0
// linear: out = x @ weight^T + bias. One dot product for each element of out.
// arguments: x, weight, bias, out
// The contract as a page: fk-host show linear
// claims deterministic batch_invariant
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include "fk/cpp/floats.hpp"

using tvm::ffi::Optional;
using tvm::ffi::TensorView;

namespace {

float get(const TensorView& tensor, int64_t at) {
  const auto* half = static_cast<const uint16_t*>(tensor.data_ptr());
  if (tensor.dtype().bits == 32) return static_cast<const float*>(tensor.data_ptr())[at];
  return tensor.dtype().code == kDLBfloat ? fk::from_bf16(half[at]) : fk::from_f16(half[at]);
}

void put(const TensorView& tensor, int64_t at, float value) {
  auto* half = static_cast<uint16_t*>(tensor.data_ptr());
  if (tensor.dtype().bits == 32)
    static_cast<float*>(tensor.data_ptr())[at] = value;
  else
    half[at] = tensor.dtype().code == kDLBfloat ? fk::to_bf16(value) : fk::to_f16(value);
}

}  // namespace

// Raises an error for cases which the function does not take. Tensors have no data here.
void linear_supports(TensorView x, TensorView weight, Optional<TensorView> bias, TensorView out) {
  for (const TensorView& tensor : {x, weight, out, bias.has_value() ? *bias : x})
    if (tensor.dtype().bits != 32 && tensor.dtype().bits != 16)
      TVM_FFI_THROW(TypeError) << "f32, bf16 and f16 only";
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(linear_supports, linear_supports);

void linear(TensorView x, TensorView weight, Optional<TensorView> bias, TensorView out) {
  const int64_t rows = x.size(0), inner = x.size(1), columns = weight.size(0);
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t n = 0; n < columns; ++n) {
      float sum = 0;
      for (int64_t k = 0; k < inner; ++k)
        sum += get(x, m * x.stride(0) + k) * get(weight, n * inner + k);
      put(out, m * columns + n, sum + (bias.has_value() ? get(*bias, n) : 0));
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(linear, linear);
