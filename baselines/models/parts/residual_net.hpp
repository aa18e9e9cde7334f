// SPDX-License-Identifier: Apache-2.0
// Residual networks with a stem of three convolutions and means in place of strides (ResNet-vd), as
// transformers' detectors have them.
#pragma once
#include <string>
#include <vector>

#include "baselines/models/parts/image.hpp"

namespace fk::parts {

struct ResidualBlock {
  std::string path;
  int64_t in, out, stride;
};
struct ResidualNet {
  std::string path;
  int64_t colours = 0, stem = 0;
  // Blocks of a narrow convolution between two products, else of two convolutions. The first
  // product has the stride, or the convolution has it.
  bool bottleneck = true, stride_first = false;
  std::string activation;  // of the stem and of sums; that inside of blocks is relu
  std::vector<std::vector<ResidualBlock>> stages;
};
// A `backbone_config` of the library's class; `path` is the module's in checkpoints.
ResidualNet read_residual_net(const Config& config, const std::string& path);
// The results of the four stages, from a quarter of the image's side on. The side must be a
// multiple of 32.
std::vector<Value> residual_net(Net& n, const ResidualNet& net, Value image);

}  // namespace fk::parts
