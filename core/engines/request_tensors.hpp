// SPDX-License-Identifier: Apache-2.0
// The tensors of requests as inputs of a phase: request b of a batch is row b of each.
#pragma once
#include <string>
#include <vector>

#include "core/exec/session.hpp"

namespace fk {

class RequestTensors {
 public:
  // Error when the phase has no float32 input of one of the names. The program must outlive this.
  RequestTensors(Program& program, std::vector<Model::RequestTensor> wanted);
  // Why a request cannot be served: a tensor is missing, of another shape, or unknown; else empty.
  std::string refusal(const Request& request) const;
  // FK_CHECK: refusal(request) is empty.
  void write(int64_t row, const Request& request);

 private:
  std::vector<Model::RequestTensor> wanted_;
  std::vector<float*> inputs_;
};

}  // namespace fk
