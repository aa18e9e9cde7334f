// SPDX-License-Identifier: Apache-2.0
// Requests with a prompt and an answer of given lengths, from a file or equal for all.
#pragma once
#include "core/engines/load.hpp"

namespace fk {

class TextLoad final : public Load {
 public:
  struct Length {
    int64_t prompt = 0, output = 0;  // tokens; encoders have output 0
  };

  // The image of each request in squares (RequestTensor::square), and its sound in frames; 0: none.
  // With -1 for both, images and sounds are random. With -1 for one of them, there is none.
  struct Given {
    int64_t image_rows = -1, image_columns = -1, sound_frames = -1;
  };

  const std::vector<Length>& lengths() const { return lengths_; }
  int64_t requests() const override { return static_cast<int64_t>(lengths_.size()); }
  // With ignore_eos, so that every run makes equally many tokens.
  Request request(const RequestForm& form, int64_t index, uint64_t seed) const override;
  int64_t left_out() const override { return left_out_; }
  int64_t prompt_tokens() const override;
  int64_t output_tokens() const override;
  int64_t longest() const override;

  // Error with file, line and the nearest key.
  static std::shared_ptr<const Load> read(const WorkloadKeys& keys, const LoadSize& size);
  // The keys of a text to read, and of one to continue.
  static EngineKind reads();
  static EngineKind writes();

 private:
  std::vector<Length> lengths_;
  int64_t left_out_ = 0;
  Sampling sampling_;  // its seed is unused
  Given given_;
};

}  // namespace fk
