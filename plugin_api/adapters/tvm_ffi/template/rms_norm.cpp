// fk-host: rms_norm, plugin template_tvm_ffi 0.1.0
// SPDX-License-Identifier: Apache-2.0
// rms_norm: out = x / sqrt(mean(x^2) + eps) * weight; x + residual comes first and is kept there
// arguments: x, residual, weight, out, eps
// The contract as a page: fk-host show rms_norm
// claims deterministic batch_invariant
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cmath>

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

void rms_norm(TensorView x, Optional<TensorView> residual, Optional<TensorView> weight,
              TensorView out, double eps) {
  const int64_t rows = x.size(0), width = x.size(1);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = row * width;
    if (residual.has_value())
      for (int64_t c = first; c < first + width; ++c)
        put(*residual, c, get(x, c) + get(*residual, c));
    const TensorView& from = residual.has_value() ? *residual : x;
    float squares = 0;
    for (int64_t c = first; c < first + width; ++c) squares += get(from, c) * get(from, c);
    const float scale =
        1 / std::sqrt(squares / static_cast<float>(width) + static_cast<float>(eps));
    for (int64_t c = 0; c < width; ++c)
      put(out, first + c,
          get(from, first + c) * scale * (weight.has_value() ? get(*weight, c) : 1));
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm, rms_norm);
