// SPDX-License-Identifier: Apache-2.0
// Masks: the result `pred_masks` [masks, rows, columns] has logits of pixels. The best masks by
// `pred_logits` [masks], or the largest ones without it, each have a colour.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/base64.hpp"
#include "core/base/png.hpp"
#include "core/exec/picture.hpp"

namespace fk {

namespace {

constexpr int64_t kMasksShown = 7, kMaskSide = 512;  // masks; pixels of a side
constexpr int64_t kNoMask = kMasksShown;
// Readable on a light and on a dark page: the colours 0 to 6 of page.css, and grey for no mask.
constexpr std::array<std::array<uint8_t, 3>, kMasksShown + 1> kMaskColours = {{{31, 95, 168},
                                                                               {239, 154, 99},
                                                                               {43, 127, 75},
                                                                               {196, 147, 234},
                                                                               {220, 188, 92},
                                                                               {179, 58, 107},
                                                                               {104, 197, 204},
                                                                               {107, 116, 128}}};

// The masks to show, best first.
std::vector<int64_t> best_masks(const RequestResult& want, const NamedTensor& masks) {
  const int64_t count = masks.shape[0], pixels = masks.shape[1] * masks.shape[2];
  const NamedTensor* scores = result_of_axes(want.tensors, "pred_logits", 1);
  std::vector<std::pair<double, int64_t>> order;
  for (int64_t m = 0; m < count; ++m) {
    const auto first = masks.values.begin() + m * pixels;
    const auto area = std::count_if(first, first + pixels, [](float v) { return v > 0; });
    if (area == 0) continue;
    const bool scored = scores && scores->shape[0] == count;
    order.emplace_back(scored ? -static_cast<double>(scores->values[static_cast<size_t>(m)])
                              : -static_cast<double>(area),
                       m);
  }
  std::ranges::sort(order);
  std::vector<int64_t> best;
  for (const auto& [score, m] : order)
    if (std::ssize(best) < kMasksShown) best.push_back(m);
  return best;
}

// By pixel: the number of the shown mask with the largest positive logit.
std::vector<int64_t> mask_of_pixels(const NamedTensor& masks, const std::vector<int64_t>& shown) {
  const int64_t pixels = masks.shape[1] * masks.shape[2];
  std::vector<int64_t> all(static_cast<size_t>(pixels), kNoMask);
  for (int64_t p = 0; p < pixels; ++p) {
    float most = 0;
    for (size_t i = 0; i < shown.size(); ++i) {
      const float logit = masks.values[static_cast<size_t>(shown[i] * pixels + p)];
      if (logit > most) most = logit, all[static_cast<size_t>(p)] = static_cast<int64_t>(i);
    }
  }
  return all;
}

// Every step-th pixel of [rows, columns]; colour_of(i) is that of pixel i.
template <class ColourOf>
void draw_pixels(const NamedTensor& masks, const ColourOf& colour_of, Picture& picture) {
  const int64_t rows = masks.shape[1], columns = masks.shape[2];
  const int64_t step = (std::max(rows, columns) + kMaskSide - 1) / kMaskSide;
  picture.height = (rows + step - 1) / step, picture.width = (columns + step - 1) / step;
  std::vector<uint8_t> pixels;
  for (int64_t y = 0; y < rows; y += step)
    for (int64_t x = 0; x < columns; x += step) {
      const auto colour = colour_of(static_cast<size_t>(y * columns + x));
      pixels.insert(pixels.end(), colour.begin(), colour.end());
    }
  picture.png = base64_of(png_of(picture.width, picture.height, 3, pixels));
}

Picture masks_picture(const std::string& side, const NamedTensor& masks,
                      const std::vector<int64_t>& of_pixels) {
  Picture picture{.result = "best masks", .side = side};
  draw_pixels(
      masks, [&](size_t i) { return kMaskColours[static_cast<size_t>(of_pixels[i])]; }, picture);
  return picture;
}

void add_masks_of_objects(const PictureTask& task, std::vector<Picture>& all) {
  const NamedTensor* right = result_of_axes(task.want.tensors, "pred_masks", 3);
  if (!right) return;
  const auto shown = best_masks(task.want, *right);
  const auto wanted = mask_of_pixels(*right, shown);
  if (task.first) all.push_back(masks_picture(kReferenceSide, *right, wanted));
  const NamedTensor* got = task.got ? result_of_axes(task.got->tensors, "pred_masks", 3) : nullptr;
  if (!got || got->shape != right->shape) return;
  const auto own = mask_of_pixels(*got, shown);
  all.push_back(masks_picture(task.side, *right, own));
  Picture picture{.result = "best masks",
                  .side = task.side,
                  .difference = true,
                  .unit = "pixels in another mask, which are white"};
  for (size_t i = 0; i < own.size(); ++i)
    if (own[i] != wanted[i]) picture.worst = 1, picture.mean += 1 / static_cast<double>(own.size());
  constexpr std::array<uint8_t, 3> kSame = {0, 0, 0}, kOther = {255, 255, 255};
  draw_pixels(
      *right, [&](size_t i) { return own[i] == wanted[i] ? kSame : kOther; }, picture);
  all.push_back(std::move(picture));
}
FK_PICTURES(masks, add_masks_of_objects);

}  // namespace

}  // namespace fk
