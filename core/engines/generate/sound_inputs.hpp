// SPDX-License-Identifier: Apache-2.0
// Inputs of the generate engine which follow from the lengths of a request's sounds (engine.hpp).
// The class does nothing for a model without sounds.
#pragma once
#include <vector>

#include "core/engines/generate/generate.hpp"
#include "core/engines/request_tensors.hpp"

namespace fk {

class SoundInputs {
 public:
  // Error when the encoder lacks an axis or an input.
  SoundInputs(Program& program, const GenerateEncoder& encoder);
  bool used() const { return !lengths_.empty(); }
  // False: the step has no room for the chunks of this request.
  bool fit(const Request& request) const;
  // Writes the sounds of a request. Its first frame is row `frame` of the step, and its first left
  // row is `left`.
  void add(const Request& request, int64_t frame, int64_t left);
  // Binds the axes of the step. The next step begins without chunks.
  void bind();

 private:
  Program& program_;
  std::vector<RequestTensor> lengths_;  // one, or none
  int64_t chunk_ = 0, chunks_ = 0, rows_ = 0;
  int32_t *frame_places_ = nullptr, *kept_places_ = nullptr, *starts_ = nullptr, *pairs_ = nullptr;
  int64_t* positions_ = nullptr;
};

}  // namespace fk
