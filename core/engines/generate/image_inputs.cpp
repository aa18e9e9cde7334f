// SPDX-License-Identifier: Apache-2.0
#include "core/engines/generate/image_inputs.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"

namespace fk {

ImageInputs::ImageInputs(Program& encoder, const GenerateSetup& setup)
    : program_(encoder), placeholder_(setup.placeholder), side_(setup.position_side) {
  for (const auto& tensor : setup.tensors)
    if (tensor.square > 0) shapes_.push_back(tensor);
  if (shapes_.empty()) return;
  columns_ = setup.encoder_length * shapes_[0].square;
  starts_ = static_cast<int32_t*>(encoder.input("frame_starts"));
  patch_rows_ = static_cast<int64_t*>(encoder.input("patch_rows"));
  corner_rows_ = static_cast<int64_t*>(encoder.input("corner_rows"));
  corner_weights_ = static_cast<float*>(encoder.input("corner_weights"));
  if (encoder.axis("B") < 0 || starts_ == nullptr)
    fail("generate", "the encoder of images has no axis `B` with an input `frame_starts`");
  if (side_ > 0 && (corner_rows_ == nullptr || corner_weights_ == nullptr))
    fail("generate", "the encoder of images has no `corner_rows` and `corner_weights`");
}

std::string ImageInputs::refusal(const Request& request) const {
  if (shapes_.empty()) return "";
  const auto& tokens = request.tokens;
  auto at = tokens.begin();
  for (const ImageShape& image : images_of(shapes_[0], request)) {
    const int64_t count = image.patches() / (shapes_[0].square * shapes_[0].square);
    at = std::find(at, tokens.end(), placeholder_);
    const auto end = std::find_if(at, tokens.end(), [&](int64_t t) { return t != placeholder_; });
    if (end - at < count)
      return "its prompt has " + std::to_string(end - at) +
             " placeholders side by side for an image of " + std::to_string(count);
    at += count;
  }
  return "";
}

void ImageInputs::place_tokens(Sequence& s) const {
  s.axes.clear();
  s.shift = 0;
  if (shapes_.empty() || s.request.tensors.empty()) return;
  const int64_t square = shapes_[0].square;
  const std::vector<ImageShape> images = images_of(shapes_[0], s.request);
  s.axes.reserve(static_cast<size_t>(3 * s.prompt));
  const auto put = [&](int64_t frame, int64_t row, int64_t column) {
    for (const int64_t position : {frame, row, column})
      s.axes.push_back(static_cast<int32_t>(position));
  };
  int64_t next = 0;
  size_t image = 0;
  for (int64_t p = 0; p < s.prompt;) {
    if (s.tokens[static_cast<size_t>(p)] != placeholder_ || image == images.size()) {
      put(next, next, next);
      ++next, ++p;
      continue;
    }
    const ImageShape& shape = images[image++];
    const int64_t rows = shape.rows / square, columns = shape.columns / square;
    for (int64_t f = 0; f < shape.frames; ++f)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) put(next + f, next + r, next + c);
    p += shape.frames * rows * columns;
    next += std::max({shape.frames, rows, columns});
  }
  s.shift = next - s.prompt;
}

// The position in a table of `side` positions of place `at` of `size` places, whose ends are those
// of the table.
namespace {
struct Spread {
  int64_t below, above;
  float share;  // of `above`
};
Spread spread_over(int64_t at, int64_t size, int64_t side) {
  const float place = static_cast<float>(at) * static_cast<float>(side - 1) /
                      static_cast<float>(std::max<int64_t>(size - 1, 1));
  const auto below = static_cast<int64_t>(std::floor(place));
  return {below, std::min(below + 1, side - 1), place - static_cast<float>(below)};
}
}  // namespace

void ImageInputs::write_patch(const ImageShape& image, int64_t row, int64_t column, int64_t patch) {
  if (patch_rows_) {
    patch_rows_[2 * patch] = row;
    patch_rows_[2 * patch + 1] = columns_ + column;
  }
  if (side_ == 0) return;
  const Spread r = spread_over(row, image.rows, side_);
  const Spread c = spread_over(column, image.columns, side_);
  int64_t* corners = corner_rows_ + 4 * patch;
  float* weights = corner_weights_ + 4 * patch;
  for (int i = 0; i < 4; ++i) {
    const bool down = i >= 2, right = i % 2 == 1;
    corners[i] = (down ? r.above : r.below) * side_ + (right ? c.above : c.below);
    weights[i] = (down ? r.share : 1 - r.share) * (right ? c.share : 1 - c.share);
  }
}

void ImageInputs::add(const Request& request, int64_t patch) {
  if (shapes_.empty()) return;
  const int64_t square = shapes_[0].square;
  for (const ImageShape& image : images_of(shapes_[0], request)) {
    for (int64_t frame = 0; frame < image.frames; ++frame) {
      starts_[frames_++] = static_cast<int32_t>(patch);
      for (int64_t top = 0; top < image.rows; top += square)
        for (int64_t left = 0; left < image.columns; left += square)
          for (int64_t i = 0; i < square * square; ++i)
            write_patch(image, top + i / square, left + i % square, patch++);
    }
    starts_[frames_] = static_cast<int32_t>(patch);
  }
}

void ImageInputs::bind() {
  if (!shapes_.empty()) program_.bind(program_.axis("B"), frames_);
  frames_ = 0;
}

}  // namespace fk
