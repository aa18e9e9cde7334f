// SPDX-License-Identifier: Apache-2.0
// Repacks the filters of a convolution from the order of checkpoints to channels last, as
// conv2d.cpp needs them.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace fkd {

// Filters [filters, channels, taps], the order of checkpoints, become [filters, taps, channels] at
// `to`. Elements have 2 or 4 bytes.
struct Filters {
  const void* from;
  void* to;
  int64_t filters, channels, taps;
  int bytes;
};
void channels_last(const Filters&, cudaStream_t stream);

}  // namespace fkd
