// SPDX-License-Identifier: Apache-2.0
// Copies the tensors of requests into inputs of a phase (request_tensors.hpp).
#include "core/engines/request_tensors.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

namespace {

const NamedTensor* find(const Request& request, const std::string& name) {
  for (const auto& tensor : request.tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

}  // namespace

RequestTensors::RequestTensors(Program& program, std::vector<Model::RequestTensor> wanted)
    : wanted_(std::move(wanted)) {
  for (const auto& tensor : wanted_) {
    inputs_.push_back(static_cast<float*>(program.input(tensor.name)));
    if (inputs_.back() == nullptr)
      fail("request tensors", "the phase has no input `" + tensor.name + "`");
  }
}

std::string RequestTensors::refusal(const Request& request) const {
  std::vector<std::string> names;
  for (const auto& tensor : wanted_) {
    names.push_back(tensor.name);
    const NamedTensor* given = find(request, tensor.name);
    if (given == nullptr) return "it has no tensor `" + tensor.name + "`";
    if (given->shape != tensor.shape ||
        static_cast<int64_t>(given->values.size()) != numel(tensor.shape))
      return "its tensor `" + tensor.name + "` has the shape " + shape_text(given->shape) +
             " where " + shape_text(tensor.shape) + " is needed";
  }
  for (const auto& tensor : request.tensors)
    if (std::find(names.begin(), names.end(), tensor.name) == names.end())
      return "the model takes no tensor `" + tensor.name + "`";
  return "";
}

void RequestTensors::write(int64_t row, const Request& request) {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const NamedTensor* given = find(request, wanted_[i].name);
    FK_CHECK(given, "a request without its tensors");
    std::copy(given->values.begin(), given->values.end(),
              inputs_[i] + row * static_cast<int64_t>(given->values.size()));
  }
}

}  // namespace fk
