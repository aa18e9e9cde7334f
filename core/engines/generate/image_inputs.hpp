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
  // Error when the encoder lacks the axis B, or an input. `positions` of a sequence are below
  // `context`.
  ImageInputs(Program& program, const GenerateEncoder& encoder, int64_t context);
  bool used() const { return !shapes_.empty(); }
  // Why the images do not fit the prompt's placeholders; empty: they do.
  std::string refusal(const Request& request) const;
  // Sets Sequence::axes and Sequence::shift.
  void place_tokens(Sequence& sequence) const;
  // Writes the images of a request, whose first patch is row `patch` of the step.
  void add(const Request& request, int64_t patch);
  // The number in its request of left row `row` of the request which was added last.
  int64_t left_row(int64_t row) const;
  // Binds the axes of the step. The next step begins without frames.
  void bind();

 private:
  // Positions which an image takes on the axis that takes most.
  int64_t extent(const ImageShape& image) const;
  void add_frame(const ImageShape& image, int64_t first, int64_t patch);
  void write_patch(const ImageShape& image, int64_t row, int64_t column, int64_t patch);

  Program& program_;
  std::vector<RequestTensor> shapes_;  // one, or none
  int64_t placeholder_, side_, window_, frame_step_, context_;
  int64_t columns_ = 0, frames_ = 0, windows_ = 0;
  std::vector<int64_t> left_rows_;  // with windows
  int32_t *starts_ = nullptr, *window_rows_ = nullptr, *window_starts_ = nullptr;
  int64_t *patch_rows_ = nullptr, *corner_rows_ = nullptr;
  float* corner_weights_ = nullptr;
};

}  // namespace fk
