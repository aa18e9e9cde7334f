// SPDX-License-Identifier: Apache-2.0
// The vision transformer of SAM 3, with attention in windows, and the pyramid of its features.
// Tokens are in the order of windows in all layers: attention over all of them has no order but its
// rotation.
#pragma once
#include <vector>

#include "baselines/models/parts/vit.hpp"

namespace fk::parts {

struct SamVision {
  VitSizes vit;
  int64_t colours = 0, window = 0, pretrained = 0;  // pretrained: patches of the table's side
  int64_t width = 0;                                // channels of the pyramid
  double theta = 0;
  std::vector<int64_t> global;  // layers with attention over all tokens
  int64_t side() const { return vit.side(); }
  int64_t tokens() const { return side() * side(); }
};
// `config` is the vision_config of transformers.
SamVision read_sam_vision(const Config& config);

// [B, T, C], in the order of windows. Taps are hidden.i in front of layer i, and one behind the
// last.
Value sam_vision(Net& n, const SamVision& vision);
// Maps of 4, 2 and 1 pixels for a patch, in the order of images.
std::vector<Value> sam_pyramid(Net& n, const SamVision& vision, Value x);

// Images [B, IH, IW, C] through a convolution with a bias, which keeps their size.
Value plain_conv(Net& n, const std::string& path, Value x, int64_t out, int64_t edge);
// The same rows [T, C] for every image: [B, T, C].
Value each_image(Net& n, const std::string& path, Value rows);
// a + b, row by row.
Value sum_rows(Net& n, const std::string& path, Value a, Value b);

}  // namespace fk::parts
