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
  // Squares of the image of each request (RequestTensor::square); 0: no image, -1: images at
  // random.
  int64_t image_rows_ = -1, image_columns_ = -1;
};

}  // namespace fk
