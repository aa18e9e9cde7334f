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

namespace {

// Puts `count` placeholders behind the first token, and nowhere else.
void place(std::vector<int64_t>& tokens, int64_t placeholder, int64_t count) {
  std::ranges::replace(tokens, placeholder, placeholder > 0 ? placeholder - 1 : 1);
  const auto first = tokens.begin() + (static_cast<int64_t>(tokens.size()) > count ? 1 : 0);
  std::fill_n(first, count, placeholder);
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

}  // namespace

const RequestTensor* RequestForm::images() const {
  const auto it =
      std::ranges::find_if(tensors, [](const RequestTensor& t) { return t.square > 0; });
  return it == tensors.end() ? nullptr : &*it;
}

void RequestForm::add_tensors(Request& request, uint64_t seed) const {
  const auto length = static_cast<int64_t>(request.tokens.size());
  int64_t rows = 0;  // of ragged tensors, by `multiple`
  std::vector<float> shapes;
  if (const RequestTensor* grid = images()) {
    // A request keeps one token of text.
    int64_t most = length - 1;
    for (const auto& wanted : tensors)
      if (wanted.ragged) most = std::min(most, wanted.shape[0] / wanted.multiple);
    shapes = random_images(grid->square, most, grid->shape[0], seed);
    if (shapes.empty()) return;
    for (size_t i = 0; i < shapes.size(); i += 3)
      rows += static_cast<int64_t>(shapes[i] * shapes[i + 1] * shapes[i + 2]) /
              (grid->square * grid->square);
  }
  for (const auto& wanted : tensors) {
    if (wanted.square > 0) {
      request.tensors.push_back(
          {wanted.name, {static_cast<int64_t>(shapes.size()) / 3, 3}, shapes});
      continue;
    }
    NamedTensor& tensor = request.tensors.emplace_back(NamedTensor{wanted.name, wanted.shape, {}});
    if (wanted.ragged) {
      int64_t most = wanted.shape[0] / wanted.multiple;
      if (placeholder >= 0) most = std::clamp<int64_t>(length - 1, 1, most);
      if (shapes.empty()) rows = Random(seed_of("rows", seed)).integer(1, most + 1);
      tensor.shape[0] = rows * wanted.multiple;
    }
    const int64_t count = numel(tensor.shape);
    tensor.values.resize(static_cast<size_t>(count));
    if (wanted.below > 0) {
      Random numbers(seed_of(wanted.name, seed));
      for (float& v : tensor.values) v = static_cast<float>(numbers.integer(0, wanted.below));
    } else {
      fill_normal(tensor.values.data(), DType::f32, count, seed_of(wanted.name, seed),
                  /*offset=*/0, /*mean=*/0, wanted.stddev);
      for (size_t i = 0; i < wanted.mean.size(); ++i) tensor.values[i] += wanted.mean[i];
    }
  }
  if (placeholder >= 0 && rows > 0 && length > 0) place(request.tokens, placeholder, rows);
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
