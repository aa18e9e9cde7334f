// SPDX-License-Identifier: Apache-2.0
// The decoder of diffusers' AutoencoderKL: latents become images.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

struct ImageDecoder {
  int64_t latents = 0, colours = 0;  // channels of both sides
  std::vector<int64_t> widths;       // of the levels; the first one has the image's size
  int64_t layers = 0, groups = 0;    // residual blocks of a level; groups of norms
  double scaling = 1, shift = 0;     // a latent of the sampler is (latent - shift) * scaling
  bool quantized = true;             // there is a convolution of one pixel before the decoder
  int64_t factor() const { return int64_t{1} << (widths.size() - 1); }  // of rows and columns
};
ImageDecoder read_image_decoder(const Config& config);

// [B, rows * factor, columns * factor, colours], from -1 to 1, of a latent [B, rows, columns,
// channels] in float32. Weights are below `path`. Taps are `path`.i behind level i.
Value decoded_image(Net& n, const std::string& path, const ImageDecoder& c, Value latent);
// Tensors of the encoder, which no request needs.
std::vector<Model::Unread> unread_encoder(const std::string& path);

}  // namespace fk::parts
