// SPDX-License-Identifier: Apache-2.0
// Sizes of HunyuanVideo 1.5, and the angles of places in a video.
#pragma once
#include <vector>

#include "baselines/models/parts/diffusers/decoder_text.hpp"
#include "baselines/models/parts/diffusers/t5_text.hpp"
#include "baselines/models/parts/diffusers/video_decoder.hpp"
#include "core/engines/denoise/engine.hpp"

namespace fk::parts {

inline constexpr int64_t kUnusedLayers = 2;  // the language model's last ones

struct HunyuanConfig {
  int64_t frames = 0, rows = 0, columns = 0;  // of latents
  int64_t channels = 0, inputs = 0;           // inputs: with those of an image to begin with
  int64_t layers = 0, refiners = 0, heads = 0, head_dim = 0, mlp = 0;
  std::vector<int64_t> rope;  // channels of a head that turn by frame, row and column
  double theta = 0, guidance = 1;
  int64_t crop = 0, text_tokens = 0, glyph_tokens = 0;  // crop: tokens of the template
  int64_t glyph_width = 0;  // hidden width of the projection of shown words
  DecoderText text;
  T5Text glyphs;
  VideoDecoder decoder;
  DiffusionSampler sampler;
  int64_t hidden() const { return heads * head_dim; }
  int64_t places() const { return frames * rows * columns; }
  int64_t context() const { return text_tokens + glyph_tokens; }
  int64_t copies() const { return guidance == 1 ? 1 : 2; }
};

HunyuanConfig read_hunyuan(const Config& config);

// Cosines, or sines, of all channels of a head for the tokens of texts and video. Neighbours share
// an angle. Texts do not turn.
std::vector<double> video_rope(const HunyuanConfig& c, bool sines);

}  // namespace fk::parts
