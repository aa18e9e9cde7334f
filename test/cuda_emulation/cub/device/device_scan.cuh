// SPDX-License-Identifier: Apache-2.0
// cub::DeviceScan for the emulation, one number after the other.
#pragma once
#include <cuda_runtime.h>

#include <functional>

namespace cub {

struct DeviceScan {
  template <class In, class Out, class Op, class V>
  static cudaError_t ExclusiveScan(void* temporary, size_t& bytes, const In* in, Out* out, Op plus, V sum, int count, cudaStream_t) {
    if (!temporary) return bytes = 1, cudaSuccess;
    for (int i = 0; i < count; ++i) {
      const In own = in[i];  // `out` may be where `in` is
      out[i] = static_cast<Out>(sum);
      sum = plus(sum, static_cast<V>(own));
    }
    return cudaSuccess;
  }
  template <class T>
  static cudaError_t ExclusiveSum(void* temporary, size_t& bytes, const T* in, T* out, int count, cudaStream_t stream) {
    return ExclusiveScan(temporary, bytes, in, out, std::plus<>{}, T{}, count, stream);
  }
};

}  // namespace cub
