// SPDX-License-Identifier: Apache-2.0
// Parts of models of images. Images are channels last.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

// The request's input `pixel_values` [colours, height, width] in float32, as an image in the dtype
// of the weights.
Value pixels(Net& n, int64_t colours, int64_t height, int64_t width);

// A weight which no op's contract names. Without a checkpoint it is random with this deviation.
Value parameter(Net& n, const std::string& name, std::vector<int64_t> shape, double stddev);
// A table which is computed and in no checkpoint.
Value computed(Net& n, const std::string& name, DType dtype, std::vector<int64_t> shape,
               std::function<std::vector<double>()> compute);

// A square convolution with a norm, below `path`. Its window keeps the size at stride 1.
struct ConvNorm {
  int64_t channels, kernel = 1, stride = 1;
  std::string activation = "none";
  double eps = 1e-5;
  int64_t groups = 1;
};
Value conv_norm(Net& n, const std::string& path, Value x, const ConvNorm& c);

// op(x) by rows of pixels, for ops of [rows, channels].
Value by_rows(Net& n, const std::string& op, const std::string& path, Value x, Args args);

// x + y, images of the same shape.
Value sum_images(Net& n, const std::string& path, Value x, Value y);

// The sizes of timm's networks of inverted bottlenecks, by the names of its arguments. `arch_def`
// has a text for each stage, of words such as uir_r1_a3_k5_s2_e4_c80: a kind of block, then letters
// with a value. r: repeats, a: first kernel, k: kernel, s: stride of the first block. e: hidden
// width over channels, c: channels of the result, se: squeezed width over channels. `skip` adds the
// input to the result.
struct InvertedBlock {
  std::string kind, path;  // path: "blocks.1.0"
  int64_t in, middle, out, start, kernel, stride, squeezed;
  bool residual;
};
struct InvertedNet {
  int64_t colours, image_size, stem, features, classes;
  std::string activation;
  double eps;
  std::vector<InvertedBlock> blocks;
  int64_t stages;
};
// `kinds` are the kinds of blocks which the model has.
InvertedNet read_inverted_net(const Config& config, const std::vector<std::string>& kinds);
// Records stem and blocks. Taps are hidden.i before stage i, and one behind the last stage.
Value inverted_net(Net& n, const InvertedNet& net);

}  // namespace fk::parts
