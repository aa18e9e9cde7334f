// SPDX-License-Identifier: Apache-2.0
// An encoder of the generate engine: a phase that fills a request's states once, before the
// prefill of its prompt (engine.hpp).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/engines/generate/generate.hpp"
#include "core/engines/generate/image_inputs.hpp"
#include "core/engines/generate/sound_inputs.hpp"
#include "core/engines/request_tensors.hpp"
#include "core/engines/scheduler.hpp"

namespace fk {

// The rows that an encoder leaves for a request.
class Sources {
 public:
  explicit Sources(const GenerateEncoder& encoder);
  int64_t left_by(const Request& request) const;
  const std::optional<RequestTensor>& ragged() const { return ragged_; }

 private:
  int64_t length_;
  std::optional<RequestTensor> ragged_, sounds_;
};

class EncoderPhase {
 public:
  // Encoder `number` of the setup. Error when the phase lacks an axis or an input.
  EncoderPhase(const GenerateSetup& setup, size_t number);
  // Why a request cannot be encoded; empty: it can.
  std::string refusal(const Request& request) const;
  // Runs the encoder for the step's requests which are not encoded yet.
  void run(const std::vector<Work>& work);

 private:
  bool full(const Request& request, int64_t rows) const;
  void write_rows(const Sequence& s, int64_t rows);
  void flush();

  Program& program_;
  const GenerateEncoder options_;
  RequestTensors tensors_;
  Sources sources_;
  ImageInputs images_;
  SoundInputs sounds_;
  int batch_;
  // Rows of a request in states, and the first one of this encoder.
  int64_t state_length_, first_, rows_most_ = 0;
  // The requests which wait for flush(): their number and their ragged rows. Also the rows before
  // the last request's, and the rows which the encoder leaves.
  int64_t count_ = 0, rows_ = 0, rows_before_ = 0, left_ = 0;
  int32_t *slots_ = nullptr, *starts_ = nullptr, *state_rows_ = nullptr;
  int64_t* positions_ = nullptr;
};

}  // namespace fk
