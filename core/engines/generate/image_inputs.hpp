// SPDX-License-Identifier: Apache-2.0
// Inputs of the generate engine which follow from the shapes of a request's images (engine.hpp).
// The class does nothing for a model without images.
#pragma once
#include <string>
#include <vector>

#include "core/engines/generate/generate.hpp"
#include "core/engines/request_tensors.hpp"
#include "core/engines/scheduler.hpp"

namespace fk {

class ImageInputs {
 public:
  // Error when the encoder lacks the axis B, or an input.
  ImageInputs(Program& encoder, const GenerateSetup& setup);
  bool used() const { return !shapes_.empty(); }
  // Why the images do not fit the prompt's placeholders; empty: they do.
  std::string refusal(const Request& request) const;
  // Sets Sequence::axes and Sequence::shift.
  void place_tokens(Sequence& sequence) const;
  // Writes the images of a request, whose first patch is row `patch` of the step.
  void add(const Request& request, int64_t patch);
  // Binds the axis B of the step. The next step begins without frames.
  void bind();

 private:
  void write_patch(const ImageShape& image, int64_t row, int64_t column, int64_t patch);

  Program& program_;
  std::vector<RequestTensor> shapes_;  // one, or none
  int64_t placeholder_, side_, columns_ = 0, frames_ = 0;
  int32_t* starts_ = nullptr;
  int64_t *patch_rows_ = nullptr, *corner_rows_ = nullptr;
  float* corner_weights_ = nullptr;
};

}  // namespace fk
