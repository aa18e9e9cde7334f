// SPDX-License-Identifier: Apache-2.0
// The decoder of HunyuanVideo 1.5, which makes a video of latents, in diffusers' names.
// Convolutions over time see no later frame. Outside of the video they see its nearest pixels.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

struct VideoDecoder {
  int64_t latents = 0, colours = 0, layers = 0;
  std::vector<int64_t> widths;  // from the latents to the video
  int64_t doubled = 0;          // levels which double rows and columns
  int64_t slowed = 0;           // levels which double all frames but the first one, too
  double scaling = 1;
  int64_t factor() const { return int64_t{1} << doubled; }
  // Frames of a video by those of its latents.
  int64_t frames(int64_t of) const { return (of - 1) * (int64_t{1} << slowed) + 1; }
};
VideoDecoder read_video_decoder(const Config& config);

// [B, frames, rows, columns, colours], from -1 to 1, of latents [B, F, h, w, C] in float32. All
// sizes but B are numbers. Taps are `path`.i behind level i.
Value decoded_video(Net& n, const std::string& path, const VideoDecoder& c, Value latents);
// The encoder's tensors, which a decoder does not read.
std::vector<Model::Unread> unread_video_encoder(const std::string& path);

}  // namespace fk::parts
