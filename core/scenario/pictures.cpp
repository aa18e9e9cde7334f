// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/pictures.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/base64.hpp"
#include "core/base/png.hpp"

namespace fk {

namespace {

constexpr int64_t kShownMost = 512;   // pixels of a side
constexpr int64_t kStripMost = 2048;  // columns of all frames of a video
constexpr int64_t kFramesMost = 8;    // of a video, the first and the last one among them

// A result as an image [rows, columns, colours]: one plane of it, or some frames of a video.
struct Drawable {
  std::vector<int64_t> shape;
  std::vector<float> values;
  std::string title = {};  // "masks[2]", "video, 8 of 32 frames"
  bool strip = false;      // frames side by side
};

// Frames side by side.
Drawable strip_of(const NamedTensor& video) {
  const auto& s = video.shape;
  Drawable strip{.shape = {}, .values = {}, .title = video.name, .strip = true};
  const int64_t frames = std::min(s[0], kFramesMost);
  strip.title += ", " + std::to_string(frames) + " of " + std::to_string(s[0]) + " frames";
  strip.shape = {s[1], frames * s[2], s[3]};
  const int64_t row = s[2] * s[3];
  for (int64_t y = 0; y < s[1]; ++y)
    for (int64_t i = 0; i < frames; ++i) {
      const int64_t frame = frames == 1 ? 0 : i * (s[0] - 1) / (frames - 1);
      const auto from = video.values.begin() + (frame * s[1] + y) * row;
      strip.values.insert(strip.values.end(), from, from + row);
    }
  return strip;
}

// One plane of [planes, rows, columns].
std::optional<Drawable> plane_of(const NamedTensor& planes, int64_t plane) {
  if (planes.shape.size() != 3) return {};
  const int64_t pixels = planes.shape[1] * planes.shape[2], first = plane * pixels;
  if (first + pixels > static_cast<int64_t>(planes.values.size())) return {};
  return Drawable{{planes.shape[1], planes.shape[2], 1},
                  {planes.values.begin() + first, planes.values.begin() + first + pixels},
                  planes.name + "[" + std::to_string(plane) + "]"};
}

// Nothing where the result is missing, or is no image and no video.
std::optional<Drawable> drawable(const RequestResult& r, const ShownImage& image) {
  const auto it = std::ranges::find(r.tensors, image.result, &NamedTensor::name);
  if (it == r.tensors.end() || it->shape.size() < 3 || it->shape.size() > 4) return {};
  const auto& s = it->shape;
  int64_t values = 1;
  for (const int64_t side : s) values *= std::max<int64_t>(side, 0);
  if (values == 0 || static_cast<int64_t>(it->values.size()) != values) return {};
  if (image.plane >= 0) return plane_of(*it, image.plane);
  if (s.back() != 1 && s.back() != 3) return {};
  if (s.size() == 4) return strip_of(*it);
  return Drawable{s, it->values, it->name};
// The tensor of an image, or null.
const NamedTensor* image_in(const RequestResult& r, const std::string& name) {
  const auto it = std::ranges::find(r.tensors, name, &NamedTensor::name);
  if (it == r.tensors.end() || it->shape.size() != 3) return nullptr;
  const auto& s = it->shape;
  const bool drawable = s[0] > 0 && s[1] > 0 && (s[2] == 1 || s[2] == 3) &&
                        static_cast<int64_t>(it->values.size()) == s[0] * s[1] * s[2];
  return drawable ? &*it : nullptr;
}

// Fills sizes and PNG. shown(i) is the brightness of value i of an image [rows, columns, colours],
// from 0 to 1. A pixel is the mean of a square of the image.
template <class Shown>
void draw_picture(const std::vector<int64_t>& shape, bool strip, const Shown& shown,
                  Picture& picture) {
  const int64_t rows = shape[0], columns = shape[1], colours = shape[2];
  const int64_t most = strip ? kStripMost : kShownMost;
  const int64_t step = (std::max(rows, columns) + most - 1) / most;
  picture.height = (rows + step - 1) / step, picture.width = (columns + step - 1) / step;
  std::vector<uint8_t> pixels;
  for (int64_t y = 0; y < picture.height; ++y)
    for (int64_t x = 0; x < picture.width; ++x)
      for (int64_t c = 0; c < colours; ++c) {
        double sum = 0, count = 0;
        for (int64_t row = y * step; row < std::min(rows, (y + 1) * step); ++row)
          for (int64_t column = x * step; column < std::min(columns, (x + 1) * step); ++column) {
            sum += shown((row * columns + column) * colours + c);
            ++count;
          }
        const double mean = sum / count;
        pixels.push_back(static_cast<uint8_t>(
            std::lround(255 * (std::isfinite(mean) ? std::clamp(mean, 0.0, 1.0) : 0.0))));
      }
  picture.png = base64_of(png_of(picture.width, picture.height, colours, pixels));
}

Picture picture_of(const ShownImage& image, const std::string& side, const Drawable& tensor) {
  Picture picture{.result = tensor.title, .side = side};
Picture picture_of(const ShownImage& image, const std::string& side, const NamedTensor& tensor) {
  Picture picture{.result = image.result, .side = side};
  draw_picture(
      tensor.shape, tensor.strip,
      [&](int64_t i) {
        return (static_cast<double>(tensor.values[static_cast<size_t>(i)]) - image.black) /
               (image.white - image.black);
      },
      picture);
  return picture;
}

Picture difference_picture(const ShownImage& image, const std::string& side, const Drawable& got,
                           const Drawable& want) {
  Picture picture{.result = want.title, .side = side, .difference = true};
Picture difference_picture(const ShownImage& image, const std::string& side, const NamedTensor& got,
                           const NamedTensor& want) {
  Picture picture{.result = image.result, .side = side, .difference = true};
  const auto apart = [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    return std::fabs(static_cast<double>(got.values[at]) - static_cast<double>(want.values[at])) /
           (image.white - image.black);
  };
  const auto count = static_cast<int64_t>(want.values.size());
  for (int64_t i = 0; i < count; ++i) {
    // A NaN is as far away as possible.
    const double d = std::isnan(apart(i)) ? HUGE_VAL : apart(i);
    picture.worst = std::max(picture.worst, d);
    picture.mean += d / static_cast<double>(count);
  }
  const double white = picture.worst > 0 && std::isfinite(picture.worst) ? picture.worst : 1;
  draw_picture(
      want.shape, want.strip,
      [&](int64_t i) {
        const double d = apart(i);
        return std::isfinite(d) ? d / white : 1;
      },
      picture);
  return picture;
}

}  // namespace

void add_pictures(const Metric& metric, const std::string& side, const Answers& got,
                  const Answers& want, std::vector<Picture>& all) {
  if (want.empty()) return;
  const auto& [id, right] = *want.begin();
  const auto own = got.find(id);
  const bool first = all.empty();
  for (const ShownImage& image : metric.images(right)) {
    const std::optional<Drawable> wanted = drawable(right, image);
    if (!wanted) continue;
    if (first) all.push_back(picture_of(image, kReferenceSide, *wanted));
    const auto drawn = own == got.end() ? std::nullopt : drawable(own->second, image);
    if (!drawn || drawn->shape != wanted->shape || drawn->title != wanted->title) continue;
    const NamedTensor* wanted = image_in(right, image.result);
    if (!wanted) continue;
    if (first) all.push_back(picture_of(image, kReferenceSide, *wanted));
    const NamedTensor* drawn = own == got.end() ? nullptr : image_in(own->second, image.result);
    if (!drawn || drawn->shape != wanted->shape) continue;
    all.push_back(picture_of(image, side, *drawn));
    all.push_back(difference_picture(image, side, *drawn, *wanted));
  }
}

}  // namespace fk
