// SPDX-License-Identifier: Apache-2.0
// Copies the tensors of requests into inputs of a phase (request_tensors.hpp).
#include "core/engines/request_tensors.hpp"

#include <algorithm>
#include <cmath>

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

bool whole_numbers(const NamedTensor& tensor, int64_t below) {
  return std::ranges::all_of(tensor.values, [&](float v) {
    return v >= 0 && v < static_cast<float>(below) && v == std::floor(v);
  });
}

template <class T>
void put(const std::vector<float>& values, void* input, int64_t at) {
  std::ranges::transform(values, static_cast<T*>(input) + at,
                         [](float v) { return static_cast<T>(v); });
}

}  // namespace

RequestTensors::RequestTensors(Program& program, std::vector<RequestTensor> wanted)
    : wanted_(std::move(wanted)) {
  for (const auto& tensor : wanted_) {
    inputs_.push_back(program.input(tensor.name));
    if (inputs_.back() == nullptr)
      fail("request tensors", "the phase has no input `" + tensor.name + "`");
    FK_CHECK(tensor.below <= kBelowMax, "whole numbers that float32 cannot hold");
    FK_CHECK(tensor.below > 0 || tensor.dtype == DType::f32, "floats in an input of integers");
  }
}

std::string RequestTensors::refusal(const Request& request) const {
  std::vector<std::string> names;
  for (const auto& tensor : wanted_) {
    names.push_back(tensor.name);
    const NamedTensor* given = find(request, tensor.name);
    if (given == nullptr) return "it has no tensor `" + tensor.name + "`";
    Shape wanted = tensor.shape;
    if (tensor.ragged && given->shape.size() == wanted.size()) {
      const int64_t rows = given->shape[0];
      if (rows < 1 || rows > wanted[0] || rows % tensor.multiple != 0)
        return "its tensor `" + tensor.name + "` has " + std::to_string(rows) +
               " rows where 1 to " + std::to_string(wanted[0]) + " are possible, a multiple of " +
               std::to_string(tensor.multiple);
      if (rows != ragged_rows(*ragged_of(wanted_), request))
        return "its tensor `" + tensor.name + "` has other rows than the one before it";
      wanted[0] = rows;
    }
    if (given->shape != wanted || static_cast<int64_t>(given->values.size()) != numel(wanted))
      return "its tensor `" + tensor.name + "` has the shape " + shape_text(given->shape) +
             " where " + shape_text(wanted) + " is needed";
    if (tensor.below > 0 && !whole_numbers(*given, tensor.below))
      return "its tensor `" + tensor.name + "` needs whole numbers from 0 to " +
             std::to_string(tensor.below - 1);
  }
  for (const auto& tensor : request.tensors)
    if (std::find(names.begin(), names.end(), tensor.name) == names.end())
      return "the model takes no tensor `" + tensor.name + "`";
  return "";
}

bool RequestTensors::collect(Exchange& exchange, std::deque<Request>& waiting) const {
  Request request;
  while (exchange.next(request, waiting.empty())) {
    std::string why = refusal(request);
    if (!request.tokens.empty()) why = "the model takes no tokens";
    if (why.empty())
      waiting.push_back(std::move(request));
    else
      exchange.failed(request.id, why);
    request = {};
  }
  return !waiting.empty();
}

void RequestTensors::write(int64_t row, const Request& request, int64_t first) {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const NamedTensor* given = find(request, wanted_[i].name);
    FK_CHECK(given, "a request without its tensors");
    const auto count = static_cast<int64_t>(given->values.size());
    const int64_t at = wanted_[i].ragged ? first * (count / given->shape[0]) : row * count;
    switch (wanted_[i].dtype) {
      case DType::i32:
        put<int32_t>(given->values, inputs_[i], at);
        break;
      case DType::i64:
        put<int64_t>(given->values, inputs_[i], at);
        break;
      default:
        put<float>(given->values, inputs_[i], at);
    }
  }
}

const RequestTensor* ragged_of(const std::vector<RequestTensor>& tensors) {
  const auto it = std::ranges::find_if(tensors, &RequestTensor::ragged);
  return it == tensors.end() ? nullptr : &*it;
}

int64_t ragged_rows(const RequestTensor& ragged, const Request& request) {
  const NamedTensor* given = find(request, ragged.name);
  FK_CHECK(given && !given->shape.empty(), "a request without its ragged tensor");
  return given->shape[0];
}

}  // namespace fk
