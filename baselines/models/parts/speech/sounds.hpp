// SPDX-License-Identifier: Apache-2.0
// Sounds before a decoder: an encoder of Whisper's form over chunks of mel frames, whose pairs of
// rows become rows of a prompt. A decoder's description has it as `sounds`
// (registry/models/README.md).
#pragma once
#include <string>

#include "core/engines/generate/engine.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

struct SoundTower {
  static constexpr const char* phase = "hear";
  std::string path, approximate;
  int64_t width = 0, layers = 0, heads = 0, mlp = 0, mel = 0, out = 0;
  int64_t chunk = 0;   // frames; two of them become a row
  int64_t frames = 0;  // most of one request, whole chunks
  int64_t placeholder = 0;

  int64_t sounds() const { return frames / chunk; }         // most of one request
  int64_t rows() const { return (frames + sounds()) / 4; }  // the same
};

// `description` is the decoder's, whose `sounds` must be present.
SoundTower read_sound_tower(const Config& description, const Config& config);
// Adds the encoder and the tensors of sounds.
void add_sounds(const SoundTower& tower, GenerateOptions& options);
// Records the encoder's phase. It leaves the rows of each request in the state `images` of `rows`.
void record_sounds(Net& n, const SoundTower& tower, int64_t rows);

}  // namespace fk::parts
