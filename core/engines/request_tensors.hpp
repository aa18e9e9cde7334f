// SPDX-License-Identifier: Apache-2.0
// The tensors of requests as inputs of a phase: row b of each input is request b of a batch.
#pragma once
#include <string>
#include <vector>

#include "core/exec/session.hpp"

namespace fk {

class RequestTensors {
 public:
  // Error when the phase lacks a float32 input with one of the names. The program must outlive
  // this.
  RequestTensors(Program& program, std::vector<Model::RequestTensor> wanted);
  // Why a request cannot be served (a tensor is missing, unknown, or has another shape); empty: it
  // can.
  std::string refusal(const Request& request) const;
  // FK_CHECK: refusal(request) is empty.
  void write(int64_t row, const Request& request);

 private:
  std::vector<Model::RequestTensor> wanted_;
  std::vector<float*> inputs_;
};

}  // namespace fk
