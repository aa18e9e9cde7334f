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

constexpr int64_t kSideMost = int64_t{1} << 16;  // patches or frames of one image

// Why the shapes of images do not fit the patches; empty: they do.
std::string image_refusal(const RequestTensor& tensor, const Request& request, int64_t patches) {
  const std::string its = "its tensor `" + tensor.name + "` ";
  int64_t sum = 0;
  for (const ImageShape& image : images_of(tensor, request)) {
    for (const int64_t side : {image.frames, image.rows, image.columns})
      if (side < 1 || side > kSideMost) return its + "has a side of " + std::to_string(side);
    if (image.rows % tensor.square != 0 || image.columns % tensor.square != 0)
      return its + "has an image of " + std::to_string(image.rows) + " by " +
             std::to_string(image.columns) + " patches, not multiples of " +
             std::to_string(tensor.square);
    if (image.patches() > patches) return its + "has an image with more than all patches";
    sum += image.patches();
  }
  if (sum == patches) return "";
  return its + "has shapes of " + std::to_string(sum) + " patches, and the request has " +
         std::to_string(patches);
}

// The same for frames of sounds.
std::string sound_refusal(const RequestTensor& tensor, const Request& request, int64_t frames) {
  const std::string its = "its tensor `" + tensor.name + "` ";
  int64_t sum = 0;
  for (const int64_t length : sounds_of(tensor, request)) {
    if (rows_of_sound(length) < 1)
      return its + "has a sound of " + std::to_string(length) + " frames, too few for a row";
    sum += length;
  }
  if (sum == frames) return "";
  return its + "has lengths of " + std::to_string(sum) + " frames, and the request has " +
         std::to_string(frames);
}

}  // namespace

RequestTensors::RequestTensors(Program& program, std::vector<RequestTensor> wanted,
                               std::vector<std::string> others)
    : wanted_(std::move(wanted)), others_(std::move(others)) {
  for (const auto& tensor : wanted_) {
    inputs_.push_back(program.input(tensor.name));
    if (tensor.shapes()) continue;
    if (inputs_.back() == nullptr)
      fail("request tensors", "the phase has no input `" + tensor.name + "`");
    FK_CHECK(tensor.below <= kBelowMax, "whole numbers that float32 cannot hold");
    FK_CHECK(tensor.below > 0 || tensor.dtype == DType::f32, "floats in an input of integers");
  }
}

std::string RequestTensors::refusal(const Request& request) const {
  std::string why = refusal_of_own(request);
  for (const auto& tensor : request.tensors) {
    const bool known =
        std::ranges::count(others_, tensor.name) > 0 ||
        std::ranges::any_of(wanted_, [&](const auto& t) { return t.name == tensor.name; });
    if (why.empty() && !known) why = "the model takes no tensor `" + tensor.name + "`";
  }
  return why;
}

std::string RequestTensors::refusal_of_own(const Request& request) const {
  const bool may_lack = std::ranges::any_of(wanted_, &RequestTensor::shapes);
  if (may_lack && std::ranges::none_of(
                      wanted_, [&](const auto& t) { return find(request, t.name) != nullptr; }))
    return "";
  for (const auto& tensor : wanted_) {
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
    if (tensor.shapes() && given->shape.size() == 2)
      wanted[0] = std::clamp<int64_t>(given->shape[0], 1, wanted[0]);
    if (given->shape != wanted || static_cast<int64_t>(given->values.size()) != numel(wanted))
      return "its tensor `" + tensor.name + "` has the shape " + shape_text(given->shape) +
             " where " + shape_text(wanted) + " is needed";
    if (tensor.below > 0 && !whole_numbers(*given, tensor.below))
      return "its tensor `" + tensor.name + "` needs whole numbers from 0 to " +
             std::to_string(tensor.below - 1);
  }
  for (const auto& tensor : wanted_) {
    if (!tensor.shapes()) continue;
    const int64_t rows = ragged_rows(*ragged_of(wanted_), request);
    auto why = tensor.square > 0 ? image_refusal(tensor, request, rows)
                                 : sound_refusal(tensor, request, rows);
    if (!why.empty()) return why;
  }
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
    if (wanted_[i].shapes()) continue;
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
  return given && !given->shape.empty() ? given->shape[0] : 0;
}

std::vector<ImageShape> images_of(const RequestTensor& tensor, const Request& request) {
  const NamedTensor* given = find(request, tensor.name);
  std::vector<ImageShape> images;
  if (!given) return images;
  const auto whole = [&](size_t i) { return static_cast<int64_t>(given->values[i]); };
  for (size_t i = 0; i + 2 < given->values.size(); i += 3)
    images.push_back({whole(i), whole(i + 1), whole(i + 2)});
  return images;
}

std::vector<int64_t> sounds_of(const RequestTensor& tensor, const Request& request) {
  const NamedTensor* given = find(request, tensor.name);
  if (!given) return {};
  return {given->values.begin(), given->values.end()};
}

}  // namespace fk
