// SPDX-License-Identifier: Apache-2.0
#include "core/exec/engine.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

int64_t RequestForm::context(const Limits& limits) const {
  return positions > 0 ? std::min(limits.max_context, positions) : limits.max_context;
}

int64_t rows_of_sound(int64_t frames) { return (frames + 1) / 2 / 2; }

namespace {

// Puts `count` placeholders at `first`, and nowhere else.
void place(std::vector<int64_t>& tokens, int64_t placeholder, int64_t first, int64_t count) {
  std::ranges::replace(tokens, placeholder, placeholder > 0 ? placeholder - 1 : 1);
  std::fill_n(tokens.begin() + first, count, placeholder);
}

// Shapes of one image or two with at most `most` squares in all; empty: no image.
std::vector<float> random_images(int64_t square, int64_t most, int64_t images, uint64_t seed) {
  Random random(seed_of("images", seed));
  std::vector<float> shapes;
  if (most < 1 || random.integer(0, 4) == 0) return shapes;
  for (int64_t i = random.integer(0, 2); i < 2 && images-- > 0 && most > 0; ++i) {
    const int64_t room = random.integer(1, most + 1);
    const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(room)));
    const int64_t rows = random.integer(1, root + 1), columns = room / rows;
    most -= rows * columns;
    for (const int64_t size : {int64_t{1}, rows * square, columns * square})
      shapes.push_back(static_cast<float>(size));
  }
  return shapes;
}

// Frames of one sound or two which leave at most `most` rows in all; empty: no sound.
std::vector<float> random_sounds(int64_t most, int64_t frames, int64_t sounds, uint64_t seed) {
  Random random(seed_of("sounds", seed));
  std::vector<float> shapes;
  if (most < 1 || random.integer(0, 4) == 0) return shapes;
  for (int64_t i = random.integer(0, 2); i < 2 && sounds-- > 0 && most > 0; ++i) {
    const int64_t rows = random.integer(1, most + 1);
    const int64_t length = std::min(frames, 4 * rows + random.integer(-1, 3));
    if (rows_of_sound(length) < 1) break;
    most -= rows_of_sound(length);
    frames -= length;
    shapes.push_back(static_cast<float>(length));
  }
  return shapes;
}

// The rows of a group's ragged tensors in one request, and the rows which its encoder leaves.
struct GroupRows {
  std::vector<float> shapes;
  int64_t rows = 0, left = 0;
};

// `most`: the placeholders for which the prompt has room.
GroupRows random_shapes(const RequestTensor& grid, int64_t most, int64_t rows_most, uint64_t seed) {
  GroupRows group;
  if (grid.chunk > 0) {
    group.shapes = random_sounds(most, rows_most, grid.shape[0], seed);
    for (const float frames : group.shapes) {
      group.rows += static_cast<int64_t>(frames);
      group.left += rows_of_sound(static_cast<int64_t>(frames));
    }
    return group;
  }
  const int64_t squares = grid.square * grid.square;
  group.shapes =
      random_images(grid.square, std::min(most, rows_most / squares), grid.shape[0], seed);
  for (size_t i = 0; i < group.shapes.size(); i += 3)
    group.rows += static_cast<int64_t>(group.shapes[i] * group.shapes[i + 1] * group.shapes[i + 2]);
  group.left = group.rows / squares;
  return group;
}

void fill_random(const RequestTensor& wanted, NamedTensor& tensor, uint64_t seed) {
  const int64_t count = numel(tensor.shape);
  tensor.values.resize(static_cast<size_t>(count));
  if (wanted.below > 0) {
    Random numbers(seed_of(wanted.name, seed));
    for (float& v : tensor.values) v = static_cast<float>(numbers.integer(0, wanted.below));
    return;
  }
  fill_normal(tensor.values.data(), DType::f32, count, seed_of(wanted.name, seed), /*offset=*/0,
              /*mean=*/0, wanted.stddev);
  for (size_t i = 0; i < wanted.mean.size(); ++i) tensor.values[i] += wanted.mean[i];
}

const RequestTensor* tensor_with(const std::vector<RequestTensor>& tensors,
                                 int64_t RequestTensor::*member) {
  const auto it = std::ranges::find_if(tensors, [&](const auto& t) { return t.*member > 0; });
  return it == tensors.end() ? nullptr : &*it;
}

}  // namespace

const RequestTensor* RequestForm::images() const {
  return tensor_with(tensors, &RequestTensor::square);
}
const RequestTensor* RequestForm::sounds() const {
  return tensor_with(tensors, &RequestTensor::chunk);
}

int64_t RequestForm::placeholder(int64_t group) const {
  return group < std::ssize(placeholders) ? placeholders[static_cast<size_t>(group)] : -1;
}

int64_t RequestForm::groups() const {
  int64_t groups = 0;
  for (const auto& tensor : tensors) groups = std::max(groups, tensor.group + 1);
  return groups;
}

void RequestForm::add_tensors(Request& request, uint64_t seed) const {
  const auto length = static_cast<int64_t>(request.tokens.size());
  int64_t placed = 0;  // placeholders of earlier groups. A request keeps one token of text.
  for (int64_t g = 0; g < groups(); ++g) {
    const RequestTensor *grid = nullptr, *ragged = nullptr;
    for (const auto& wanted : tensors) {
      if (wanted.group != g) continue;
      if (wanted.shapes()) grid = &wanted;
      if (wanted.ragged && !ragged) ragged = &wanted;
    }
    GroupRows group;
    if (grid) {
      group = random_shapes(*grid, length - 1 - placed, ragged->shape[0], seed);
      if (group.shapes.empty()) continue;
    } else if (ragged) {
      int64_t most = ragged->shape[0] / ragged->multiple;
      if (placeholder(g) >= 0) most = std::clamp<int64_t>(length - 1 - placed, 1, most);
      group.left = Random(seed_of("rows", seed)).integer(1, most + 1);
      group.rows = group.left * ragged->multiple;
    }
    for (const auto& wanted : tensors) {
      if (wanted.group != g) continue;
      NamedTensor& tensor =
          request.tensors.emplace_back(NamedTensor{wanted.name, wanted.shape, {}});
      if (wanted.shapes()) {
        tensor.values = group.shapes;
        tensor.shape[0] = std::ssize(group.shapes) / tensor.shape[1];
        continue;
      }
      if (wanted.ragged) tensor.shape[0] = group.rows;
      fill_random(wanted, tensor, seed);
    }
    if (placeholder(g) < 0 || group.left == 0 || length == 0) continue;
    place(request.tokens, placeholder(g), length > placed + group.left ? placed + 1 : placed,
          group.left);
    placed += group.left;
  }
}

Request RequestForm::random(int64_t length, uint64_t seed) const {
  FK_CHECK(vocabulary > 0 || length == 0, "tokens of a model without tokens");
  Request request;
  request.tokens.resize(static_cast<size_t>(length));
  if (length > 0)
    fill_int(request.tokens.data(), DType::i64, length, seed, /*offset=*/0, /*low=*/0, vocabulary);
  add_tensors(request, seed);
  return request;
}

std::vector<Request> Engine::correctness_requests(const Limits& l, uint64_t seed) const {
  constexpr int64_t kForced = 8;                         // tokens decoded per request
  constexpr int64_t kLogitBytesMax = int64_t{64} << 20;  // for one request's prompt
  const int64_t context = form_.context(l);
  const int64_t forced = form_.continues ? std::max<int64_t>(1, std::min(kForced, context / 4)) : 0;
  const int64_t longest = std::max<int64_t>(1, context - forced);
  std::vector<Request> list;
  Random random(seed_of("correctness", seed));
  // Lengths: one crosses a chunk, one ends just behind a page, one on a page, one is short.
  for (const int64_t wanted :
       {l.chunk_tokens + l.chunk_tokens / 3 + 1, 2 * l.page_size + 1, l.page_size, int64_t{5}}) {
    Request r;
    r.id = list.size() + 1;
    // A model may have no tokens.
    const int64_t length = form_.vocabulary > 0 ? std::clamp<int64_t>(wanted, 1, longest) : 0;
    for (int64_t i = 0; i < length; ++i) r.tokens.push_back(random.integer(0, form_.vocabulary));
    for (int64_t i = 0; i < forced; ++i) r.forced.push_back(random.integer(0, form_.vocabulary));
    form_.add_tensors(r, seed_of("tensors of request " + std::to_string(r.id), seed));
    r.new_tokens = forced;
    r.logits = form_.continues;
    if (length * form_.vocabulary * 4 <= kLogitBytesMax) r = scored(std::move(r));
    list.push_back(std::move(r));
  }
  return list;
}

Limits Engine::stressed(const Limits& limits, int64_t) const { return limits; }

AuditedTokens Engine::audit(const RequestResult&, const RequestResult&, double) const { return {}; }

void fail_axis(const std::string& phase, const std::string& axis,
               const std::vector<std::string>& known) {
  fail("phase " + phase, "there is no axis `" + axis + "`", did_you_mean(axis, known));
}

}  // namespace fk
