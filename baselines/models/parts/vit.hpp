// SPDX-License-Identifier: Apache-2.0
// Parts of vision transformers over images of one size.
#pragma once
#include <string>
#include <vector>

#include "baselines/models/parts/image.hpp"
#include "core/engines/feedforward/engine.hpp"

namespace fk::parts {

// A model of images, with one pass over the phase "encode".
class ImageModel : public Model {
 public:
  std::unique_ptr<Engine> engine() const override {
    return feedforward_engine({.phase = "encode", .outputs = results(), .inputs = inputs()});
  }
  virtual std::vector<std::string> results() const = 0;  // names of the outputs
  virtual std::vector<RequestTensor> inputs() const = 0;
};

struct VitSizes {
  int64_t hidden = 0, layers = 0, heads = 0, mlp = 0;
  int64_t image_size = 0, patch = 0;
  double eps = 0;
  bool gated = false;
  std::string approximate = "none";  // of gelu, without a gate
  int64_t head_dim() const { return hidden / heads; }
  int64_t side() const { return image_size / patch; }  // patches of a row
};
// hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, hidden_act.
VitSizes read_vit(const Config& config, bool gated);
// image_size and patch_size of square images.
void read_patches(const Config& config, VitSizes& vit);
// The common arguments of all layers.
void begin_vit(Net& n, const VitSizes& vit);

// [B, patches, channels] of an image: a convolution with a bias, whose windows lie side by side.
// Without `weight` it has the name `path` + ".weight".
Value patch_rows(Net& n, const std::string& path, Value image, int64_t channels, int64_t patch,
                 Value weight = {});

// [B, P + T, C]: the tokens `prefix` [P, C] before the tokens of every image, x [B, T, C].
Value with_prefix(Net& n, const std::string& path, Value prefix, Value x);

// [B, 1, C], with gaps between the rows: the row [1, C] for every image of x [B, T, C].
Value same_rows(Net& n, const std::string& path, Value row, Value x);

// [B, C]: the first token of every image of x [B, T, C].
Value first_tokens(Net& n, const std::string& path, Value x);

}  // namespace fk::parts
