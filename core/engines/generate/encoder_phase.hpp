// SPDX-License-Identifier: Apache-2.0
// The encoder of the generate engine: a phase that fills a request's states once, before the
// prefill of its prompt (engine.hpp).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/engines/generate/generate.hpp"
#include "core/engines/generate/image_inputs.hpp"
#include "core/engines/request_tensors.hpp"
#include "core/engines/scheduler.hpp"

namespace fk {

// The rows that the encoder leaves for a request.
class Sources {
 public:
  explicit Sources(const GenerateSetup& setup);
  int64_t left_by(const Request& request) const;
  const std::optional<RequestTensor>& ragged() const { return ragged_; }

 private:
  int64_t length_;
  std::optional<RequestTensor> ragged_;
};

class EncoderPhase {
 public:
  // Error when the phase lacks an axis or an input.
  EncoderPhase(Program& program, const GenerateSetup& setup);
  // Why a request cannot be encoded; empty: it can.
  std::string refusal(const Request& request) const;
  // Runs the encoder for the step's requests which are not encoded yet.
  void run(const std::vector<Work>& work);

 private:
  void write_rows(const Sequence& s, int64_t rows);
  void flush();

  Program& program_;
  RequestTensors tensors_;
  Sources sources_;
  ImageInputs images_;
  int batch_;
  int64_t length_, placeholder_, rows_most_ = 0;
  // The requests which wait for flush(): their number and their ragged rows. Also the rows before
  // the last request's, and the rows which the encoder leaves.
  int64_t count_ = 0, rows_ = 0, rows_before_ = 0, left_ = 0;
  int32_t *slots_ = nullptr, *starts_ = nullptr, *state_rows_ = nullptr;
  int64_t* positions_ = nullptr;
};

}  // namespace fk
