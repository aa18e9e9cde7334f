// SPDX-License-Identifier: Apache-2.0
// Sizes of Oasis, the steps of its sampler, and the angles of places.
#pragma once
#include <vector>

#include "core/base/json.hpp"
#include "core/engines/denoise/engine.hpp"

namespace fk::parts {

inline constexpr int64_t kOasisColours = 3;

// A transformer over the patches of an image: encoder or decoder of latents.
struct PatchNet {
  int64_t hidden = 0, layers = 0, heads = 0, mlp = 0;
};

struct OasisConfig {
  int64_t prompt_frames = 0, frames = 0, window = 0;
  // Latents of a frame, and patches of them.
  int64_t rows = 0, columns = 0, channels = 0, patch = 0;
  int64_t hidden = 0, layers = 0, heads = 0, mlp = 0, actions = 0;
  int64_t vae_patch = 0;
  PatchNet encoder, decoder;
  bool variational = true;
  double scaling = 1, noise_most = 0, seen_time = 0;
  DiffusionSampler sampler;
  int64_t latents() const { return rows * columns; }
  int64_t token_columns() const { return columns / patch; }
  int64_t tokens() const { return rows / patch * token_columns(); }
  int64_t head_dim() const { return hidden / heads; }
};

OasisConfig read_oasis(const Config& config);

// Angles of rows, then of columns, for each place of an image; neighbours share an angle. Places
// are spread from -1 to 1, and `each` channels turn by one side. `most`: twice the fastest speed,
// in half turns.
std::vector<double> pixel_angles(int64_t rows, int64_t columns, int64_t each, double most);
// The same of frames, for all channels of a head.
std::vector<double> frame_angles(int64_t frames, int64_t width);

}  // namespace fk::parts
