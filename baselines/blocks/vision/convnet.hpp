// SPDX-License-Identifier: Apache-2.0
// Parts of blocks which are made of convolutions and norms.
#pragma once
#include <string>

#include "core/graph/builder.hpp"

namespace fk::blocks {

// A conv_norm_act of a region by its weights <name> and <name>_norm_...
struct Conv {
  std::string name;  // also of the part's path
  int64_t channels;  // of the result
  int64_t kernel = 1, stride = 1;
  bool depthwise = false, activated = true;
};
// The square window keeps the size at stride 1. `out` may be absent.
Value convolve(Builder& b, const Region& r, const Conv& conv, Value x, Value out = {});
// a + b, images of the same shape; `out` may be absent.
Value sum_images(Builder& b, const Region& r, const std::string& path, Value a, Value c,
                 Value out = {});

}  // namespace fk::blocks
