// SPDX-License-Identifier: Apache-2.0
// Shared by kernels of convolutions: sizes, and the end of a sum. Images are channels last.
#pragma once
#include <type_traits>

#include "../parts/activation.cuh"
#include "../parts/op.cuh"

namespace fkc::conv {

struct Window {
  int channels, outputs, taps, kernel_wide, high, wide, out_high, out_wide;
  int stride_y, stride_x, pad_y, pad_x, step_y, step_x;
};

// The dtype of parameters which are not float32.
template <class T>
using Narrow = std::conditional_t<std::is_same_v<T, float>, __half, T>;

// A sum becomes activation(sum * scale + shift), or activation(sum + bias).
template <class T>
struct Ending {
  const float *scale, *shift;  // by output channel; null: bias
  Parameter<Narrow<T>> bias;
  int activation;
};

template <class Init>
Window window_of(const Init& init, const fk_in* x, const fk_in* out) {
  const auto at = [](const fk_ints* list, int i) { return int(list->at[i]); };
  const int high = at(init.kernel_size, 0), wide = at(init.kernel_size, 1);
  return {int(init.in_channels), int(init.out_channels), high * wide,         wide,
          int(x->shape[1]),      int(x->shape[2]),       int(out->shape[1]),  int(out->shape[2]),
          at(init.stride, 0),    at(init.stride, 1),     at(init.padding, 0), at(init.padding, 1),
          at(init.dilation, 0),  at(init.dilation, 1)};
}
template <class Init>
bool is_depthwise(const Init& init) {
  return init.groups == init.in_channels && init.groups == init.out_channels;
}

}  // namespace fkc::conv
