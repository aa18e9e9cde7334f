// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/pictures.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/base64.hpp"
#include "core/base/png.hpp"

namespace fk {

namespace {

constexpr int64_t kShownMost = 512;  // pixels of a side

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
void draw_picture(const std::vector<int64_t>& shape, const Shown& shown, Picture& picture) {
  const int64_t rows = shape[0], columns = shape[1], colours = shape[2];
  const int64_t step = (std::max(rows, columns) + kShownMost - 1) / kShownMost;
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

Picture picture_of(const ShownImage& image, const std::string& side, const NamedTensor& tensor) {
  Picture picture{.result = image.result, .side = side};
  draw_picture(
      tensor.shape,
      [&](int64_t i) {
        return (static_cast<double>(tensor.values[static_cast<size_t>(i)]) - image.black) /
               (image.white - image.black);
      },
      picture);
  return picture;
}

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
      want.shape,
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
