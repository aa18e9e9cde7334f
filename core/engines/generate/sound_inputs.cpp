// SPDX-License-Identifier: Apache-2.0
#include "core/engines/generate/sound_inputs.hpp"

#include <algorithm>

#include "core/base/error.hpp"

namespace fk {

SoundInputs::SoundInputs(Program& program, const GenerateEncoder& encoder) : program_(program) {
  for (const auto& tensor : encoder.tensors)
    if (tensor.chunk > 0) lengths_.push_back(tensor);
  if (lengths_.empty()) return;
  chunk_ = lengths_[0].chunk;
  FK_CHECK(chunk_ % 2 == 0, "two frames become a row");
  for (const char* axis : {"S", "B", "E", "R"})
    if (program.axis(axis) < 0)
      fail("generate", std::string("the encoder of sounds has no axis `") + axis + "`");
  const auto input = [&](const char* name) {
    void* data = program.input(name);
    if (data == nullptr)
      fail("generate", std::string("the encoder of sounds has no input `") + name + "`");
    return data;
  };
  frame_places_ = static_cast<int32_t*>(input("frame_places"));
  kept_places_ = static_cast<int32_t*>(input("kept_places"));
  starts_ = static_cast<int32_t*>(input("chunk_starts"));
  positions_ = static_cast<int64_t*>(input("positions"));
  pairs_ = static_cast<int32_t*>(input("pair_rows"));
}

bool SoundInputs::fit(const Request& request) const {
  if (lengths_.empty()) return true;
  int64_t chunks = chunks_;
  for (const int64_t frames : sounds_of(lengths_[0], request))
    chunks += (frames + chunk_ - 1) / chunk_;
  return chunks <= program_.limit("B");
}

void SoundInputs::add(const Request& request, int64_t frame, int64_t left) {
  if (lengths_.empty()) return;
  for (const int64_t frames : sounds_of(lengths_[0], request)) {
    for (int64_t i = 0; i < rows_of_sound(frames); ++i, ++left)
      for (int64_t half = 0; half < 2; ++half)
        pairs_[2 * left + half] = static_cast<int32_t>(rows_ + 2 * i + half);
    for (int64_t first = 0; first < frames; first += chunk_, ++chunks_) {
      const int64_t count = std::min(chunk_, frames - first);
      for (int64_t i = 0; i < count; ++i)
        frame_places_[frame++] = static_cast<int32_t>(chunks_ * chunk_ + i);
      starts_[chunks_] = static_cast<int32_t>(rows_);
      for (int64_t i = 0; i < (count + 1) / 2; ++i, ++rows_) {
        kept_places_[rows_] = static_cast<int32_t>(chunks_ * (chunk_ / 2) + i);
        positions_[rows_] = i;
      }
    }
    starts_[chunks_] = static_cast<int32_t>(rows_);
  }
}

void SoundInputs::bind() {
  if (lengths_.empty()) return;
  program_.bind(program_.axis("B"), chunks_);
  program_.bind(program_.axis("E"), rows_);
  chunks_ = rows_ = 0;
}

}  // namespace fk
