// SPDX-License-Identifier: Apache-2.0
#include "core/engines/generate/image_inputs.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"

namespace fk {

ImageInputs::ImageInputs(Program& program, const GenerateEncoder& encoder, int64_t context)
    : program_(program),
      placeholder_(encoder.placeholder),
      side_(encoder.position_side),
      window_(encoder.window),
      frame_step_(encoder.frame_step),
      context_(context) {
  for (const auto& tensor : encoder.tensors)
    if (tensor.square > 0) shapes_.push_back(tensor);
  if (shapes_.empty()) return;
  columns_ = encoder.length * shapes_[0].square;
  starts_ = static_cast<int32_t*>(program.input("frame_starts"));
  patch_rows_ = static_cast<int64_t*>(program.input("patch_rows"));
  corner_rows_ = static_cast<int64_t*>(program.input("corner_rows"));
  corner_weights_ = static_cast<float*>(program.input("corner_weights"));
  window_rows_ = static_cast<int32_t*>(program.input("window_rows"));
  window_starts_ = static_cast<int32_t*>(program.input("window_starts"));
  if (window_ > 0 && (program.axis("G") < 0 || !window_rows_ || !window_starts_))
    fail("generate", "the encoder of images has no `window_rows`, or no axis `G`");
  if (program.axis("B") < 0 || starts_ == nullptr)
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
  // Frames of a film may take more positions than tokens.
  int64_t positions = std::ssize(tokens) + request.new_tokens;
  for (const ImageShape& image : images_of(shapes_[0], request))
    positions += extent(image) - image.patches() / (shapes_[0].square * shapes_[0].square);
  if (positions > context_)
    return "its images reach position " + std::to_string(positions) + ", and the context is " +
           std::to_string(context_);
  return "";
}

int64_t ImageInputs::extent(const ImageShape& image) const {
  const int64_t square = shapes_[0].square;
  return std::max(
      {(image.frames - 1) * frame_step_ + 1, image.rows / square, image.columns / square});
}

void ImageInputs::place_tokens(Sequence& s) const {
  if (shapes_.empty()) return;
  s.axes.clear();
  s.shift = 0;
  const int64_t square = shapes_[0].square;
  const std::vector<ImageShape> images = images_of(shapes_[0], s.request);
  if (images.empty()) return;
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
        for (int64_t c = 0; c < columns; ++c) put(next + f * frame_step_, next + r, next + c);
    p += shape.frames * rows * columns;
    next += extent(shape);
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
  left_rows_.clear();
  if (shapes_.empty()) return;
  int64_t first = patch;
  for (const ImageShape& image : images_of(shapes_[0], request)) {
    for (int64_t frame = 0; frame < image.frames; ++frame, patch += image.rows * image.columns)
      add_frame(image, first, patch);
    starts_[frames_] = static_cast<int32_t>(patch);
  }
}

// `first` is the first patch of the request, `patch` that of the frame. Squares are in the order of
// rows, or with windows in that of windows.
void ImageInputs::add_frame(const ImageShape& image, int64_t first, int64_t patch) {
  const int64_t square = shapes_[0].square, squares = square * square;
  const int64_t rows = image.rows / square, columns = image.columns / square;
  const int64_t height = window_ > 0 ? window_ : rows, width = window_ > 0 ? window_ : columns;
  starts_[frames_++] = static_cast<int32_t>(patch);
  int64_t at = patch;
  const auto put = [&](int64_t row, int64_t column) {
    const int64_t from = patch + (row * columns + column) * squares;
    if (window_ > 0) left_rows_.push_back((from - first) / squares);
    for (int64_t i = 0; i < squares; ++i, ++at) {
      if (window_ > 0) window_rows_[at] = static_cast<int32_t>(from + i);
      write_patch(image, row * square + i / square, column * square + i % square, at);
    }
  };
  for (int64_t top = 0; top < rows; top += height)
    for (int64_t left = 0; left < columns; left += width) {
      if (window_ > 0) window_starts_[windows_++] = static_cast<int32_t>(at);
      for (int64_t r = top; r < std::min(rows, top + height); ++r)
        for (int64_t c = left; c < std::min(columns, left + width); ++c) put(r, c);
    }
  if (window_ > 0) window_starts_[windows_] = static_cast<int32_t>(at);
}

int64_t ImageInputs::left_row(int64_t row) const {
  return left_rows_.empty() ? row : left_rows_[static_cast<size_t>(row)];
}

void ImageInputs::bind() {
  if (!shapes_.empty()) program_.bind(program_.axis("B"), frames_);
  if (window_ > 0) program_.bind(program_.axis("G"), windows_);
  frames_ = windows_ = 0;
}

}  // namespace fk
