// SPDX-License-Identifier: Apache-2.0
// Detections: the result `pred_boxes` [queries, 4] with `logits` [queries, classes] (centre, width
// and height), or with `pred_logits` [queries] of one class (two corners). The difference has each
// of the reference's best boxes beside the nearest box of its class.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/exec/picture.hpp"

namespace fk {

namespace {

constexpr size_t kBoxesMost = 12;             // of a drawing
constexpr size_t kNearMost = 4 * kBoxesMost;  // among which the nearest box is looked for
constexpr int64_t kFrame = 1000, kGrey = 7;

struct FoundBox {
  double score = 0;
  int64_t label = 0;
  std::array<double, 4> corners{};  // left, top, right, bottom
};

// The best boxes, best first. Nothing: there are no such results, or one of them is not finite.
std::optional<std::vector<FoundBox>> boxes_of(const RequestResult& r) {
  const NamedTensor *boxes = result_of_axes(r.tensors, "pred_boxes", 2),
                    *classes = result_of_axes(r.tensors, "logits", 2),
                    *scores = result_of_axes(r.tensors, "pred_logits", 1);
  const NamedTensor* of = classes ? classes : scores;
  if (!boxes || !of || boxes->shape[1] != 4 || boxes->shape[0] != of->shape[0]) return {};
  for (const NamedTensor* t : {boxes, of})
    if (!std::ranges::all_of(t->values, [](float v) { return std::isfinite(v); })) return {};
  const int64_t width = classes ? classes->shape[1] : 1;
  std::vector<FoundBox> all;
  for (int64_t query = 0; query < boxes->shape[0]; ++query) {
    const auto first = of->values.begin() + query * width;
    const auto best = std::max_element(first, first + width);
    const float* b = boxes->values.data() + 4 * query;
    const std::array<double, 4> numbers = {b[0], b[1], b[2], b[3]};
    const auto [x, y, w, h] = numbers;
    all.push_back({*best, best - first,
                   classes ? std::array{x - w / 2, y - h / 2, x + w / 2, y + h / 2} : numbers});
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &FoundBox::score);
  return all;
}

// The side of the image in the units of boxes: 1, or pixels.
double side_of(const RequestResult& want, const std::vector<FoundBox>& boxes) {
  constexpr double kShares = 2;  // larger numbers are no shares of an image
  double most = 0;
  for (const FoundBox& box : boxes)
    for (const double c : box.corners) most = std::max(most, std::fabs(c));
  const NamedTensor* image = result_of_axes(want.request.tensors, "pixel_values", 3);
  if (most <= kShares) return 1;
  return image ? static_cast<double>(std::max(image->shape[1], image->shape[2])) : most;
}

class BoxDrawing {
 public:
  explicit BoxDrawing(double side) : side_(side) {
    drawing.width = drawing.height = kFrame;
    drawing.marks.push_back({"boxes", kGrey, 1, {0, 0, kFrame, kFrame}});
  }
  void add(const FoundBox& box, int64_t colour, double width) {
    Mark mark{"boxes", colour, width, {}};
    for (const double c : box.corners)
      mark.at.push_back(std::llround(std::clamp(c / side_, -0.05, 1.05) * kFrame));
    drawing.marks.push_back(std::move(mark));
  }
  Drawing drawing;

 private:
  double side_;
};

Picture boxes_picture(const std::string& side, std::vector<FoundBox> boxes, double image,
                      const std::vector<int64_t>& labels) {
  BoxDrawing draw(image);
  boxes.resize(std::min(boxes.size(), kBoxesMost));
  std::vector<bool> used(kGrey + 1);
  std::ranges::reverse(boxes);  // the best box lies above the others
  for (const FoundBox& box : boxes) {
    const auto rank = std::ranges::find(labels, box.label) - labels.begin();
    const auto colour = std::min<int64_t>(rank, kGrey);
    draw.add(box, colour, 2);
    used[static_cast<size_t>(colour)] = true;
  }
  for (int64_t colour = 0; colour <= kGrey; ++colour)
    if (used[static_cast<size_t>(colour)])
      draw.drawing.keys.push_back(
          {colour, colour == kGrey
                       ? "other classes"
                       : "class " + std::to_string(labels[static_cast<size_t>(colour)])});
  return {.result = "best boxes", .side = side, .drawing = std::move(draw.drawing)};
}

Picture apart_picture(const std::string& side, const std::vector<FoundBox>& own,
                      const std::vector<FoundBox>& wanted, double image) {
  BoxDrawing draw(image);
  Picture picture{.result = "best boxes",
                  .side = side,
                  .difference = true,
                  .unit = "sides of the image between corners"};
  std::vector<bool> taken(std::min(own.size(), kNearMost));
  const size_t count = std::min(wanted.size(), kBoxesMost);
  int64_t lost = 0;
  std::vector<FoundBox> found;
  for (size_t i = 0; i < count; ++i) {
    size_t best = taken.size();
    double nearest = 1;  // a box which is farther away is another one
    for (size_t k = 0; k < taken.size(); ++k) {
      if (taken[k] || own[k].label != wanted[i].label) continue;
      double apart = 0;
      for (size_t c = 0; c < 4; ++c)
        apart = std::max(apart, std::fabs(own[k].corners[c] - wanted[i].corners[c]) / image);
      if (apart >= nearest) continue;
      nearest = apart, best = k;
    }
    picture.worst = std::max(picture.worst, nearest);
    picture.mean += nearest / static_cast<double>(count);
    draw.add(wanted[i], kGrey, 5);
    if (best == taken.size()) {
      ++lost;
      continue;
    }
    taken[best] = true;
    found.push_back(own[best]);
  }
  for (const FoundBox& box : found) draw.add(box, 0, 1.5);
  draw.drawing.keys = {
      {kGrey, "reference, its " + std::to_string(count) + " best boxes"},
      {0, side + ", the nearest boxes of their classes; " + std::to_string(lost) + " are missing"}};
  picture.drawing = std::move(draw.drawing);
  return picture;
}

void add_boxes(const PictureTask& task, std::vector<Picture>& all) {
  const auto wanted = boxes_of(task.want);
  if (!wanted || wanted->empty()) return;
  const double image = side_of(task.want, *wanted);
  std::vector<int64_t> labels;  // of the reference's best boxes
  for (size_t i = 0; i < std::min(wanted->size(), kBoxesMost); ++i)
    if (std::ranges::count(labels, (*wanted)[i].label) == 0) labels.push_back((*wanted)[i].label);
  if (task.first) all.push_back(boxes_picture(kReferenceSide, *wanted, image, labels));
  const auto own = task.got ? boxes_of(*task.got) : std::nullopt;
  if (!own) return;
  all.push_back(boxes_picture(task.side, *own, image, labels));
  all.push_back(apart_picture(task.side, *own, *wanted, image));
}
FK_PICTURES(boxes, add_boxes);

}  // namespace

}  // namespace fk
