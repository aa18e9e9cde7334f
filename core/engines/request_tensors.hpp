// SPDX-License-Identifier: Apache-2.0
// The tensors of requests as inputs of a phase. Row b of an input is request b of a batch. Ragged
// tensors follow each other in their inputs.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "core/exec/request.hpp"
#include "core/exec/session.hpp"

namespace fk {

class RequestTensors {
 public:
  // Error when the phase lacks an input with one of the names. Inputs have the dtypes of the
  // tensors. The program must outlive this. `others` are tensors of other phases.
  RequestTensors(Program& program, std::vector<RequestTensor> wanted,
                 std::vector<std::string> others = {});
  // Why a request cannot be served; empty: it can. A tensor may be missing, unknown, or of another
  // shape, and ids may have no row.
  std::string refusal(const Request& request) const;
  // Appends the requests which have come to `waiting`; waits for one if none waits. A request with
  // tokens, or which cannot be served, fails. False: no request waits, and none comes any more.
  bool collect(Exchange& exchange, std::deque<Request>& waiting) const;
  // Writes request `row` of a batch, whose ragged tensors begin at `first`. FK_CHECK:
  // refusal(request) is empty.
  void write(int64_t row, const Request& request, int64_t first = 0);

 private:
  // Why its own tensors cannot be served; empty: they can.
  std::string refusal_of_own(const Request& request) const;

  std::vector<RequestTensor> wanted_;
  std::vector<std::string> others_;
  std::vector<void*> inputs_;
};

// An image as patches: columns of a row, rows of a frame.
struct ImageShape {
  int64_t frames = 0, rows = 0, columns = 0;
  int64_t patches() const { return frames * rows * columns; }
};
// The images of a request, by its tensor with RequestTensor::square. Empty: it has none.
std::vector<ImageShape> images_of(const RequestTensor& tensor, const Request& request);

// The frames of each sound of a request, by its tensor with RequestTensor::chunk.
std::vector<int64_t> sounds_of(const RequestTensor& tensor, const Request& request);

// The ragged tensor that gives the number of rows; null: there is none.
const RequestTensor* ragged_of(const std::vector<RequestTensor>& tensors);
// Rows of a request's ragged tensors; 0: it lacks them.
int64_t ragged_rows(const RequestTensor& ragged, const Request& request);

}  // namespace fk
