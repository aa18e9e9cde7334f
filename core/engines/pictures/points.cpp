// SPDX-License-Identifier: Apache-2.0
// Clouds: the places `coord` [points, 3] of a request, coloured by the classes of the result
// `logits` [points, classes]. The difference shows the points with another class.
#include <algorithm>
#include <map>

#include "core/engines/pictures/places.hpp"

namespace fk {

namespace {

constexpr int64_t kPointsMost = 4000;  // of a drawing
constexpr int64_t kColours = 7;        // of the most frequent classes; the others are grey
constexpr double kDot = 5;

std::vector<int64_t> classes_of(const NamedTensor& logits) {
  const int64_t width = logits.shape[1];
  std::vector<int64_t> all;
  for (int64_t row = 0; row < logits.shape[0]; ++row) {
    const auto first = logits.values.begin() + row * width;
    all.push_back(std::max_element(first, first + width) - first);
  }
  return all;
}

// The classes of a list, the most frequent one first.
std::vector<int64_t> by_frequency(const std::vector<int64_t>& classes) {
  std::map<int64_t, int64_t> counts;
  for (const int64_t c : classes) ++counts[c];
  std::vector<int64_t> order;
  for (const auto& [c, count] : counts) order.push_back(c);
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](int64_t c) { return counts[c]; });
  return order;
}

// Dots of every `step`-th place, one mark for each colour.
template <class ColourOf>
void draw_dots(const PlaceFrame& frame, const Places& places, const ColourOf& colour_of,
               Drawing& drawing) {
  const int64_t step = (std::ssize(places) + kPointsMost - 1) / kPointsMost;
  const auto at = frame.at(places, step);
  for (int64_t colour = kColours; colour >= 0; --colour) {
    Mark dots{"dots", colour, kDot, {}};
    for (size_t i = 0; 2 * i < at.size(); ++i)
      if (colour_of(i * static_cast<size_t>(step)) == colour)
        dots.at.insert(dots.at.end(), {at[2 * i], at[2 * i + 1]});
    if (!dots.at.empty()) drawing.marks.push_back(std::move(dots));
  }
}

Picture classes_picture(const std::string& side, const PlaceFrame& frame, const Places& places,
                        const std::vector<int64_t>& classes, const std::vector<int64_t>& order) {
  Picture picture{.result = "classes of points", .side = side, .drawing = frame.empty_drawing()};
  const auto colour = [&](size_t i) {
    const auto rank = std::ranges::find(order, classes[i]) - order.begin();
    return std::min<int64_t>(rank, kColours);
  };
  draw_dots(frame, places, colour, picture.drawing);
  for (int64_t rank = 0; rank < std::min<int64_t>(std::ssize(order), kColours); ++rank)
    picture.drawing.keys.push_back(
        {rank, "class " + std::to_string(order[static_cast<size_t>(rank)])});
  if (std::ssize(order) > kColours) picture.drawing.keys.push_back({kColours, "other classes"});
  return picture;
}

void add_clouds(const PictureTask& task, std::vector<Picture>& all) {
  const NamedTensor* coord = result_of_axes(task.want.request.tensors, "coord", 2);
  const NamedTensor* right = result_of_axes(task.want.tensors, "logits", 2);
  if (!coord || !right || coord->shape[1] != 3 || coord->shape[0] != right->shape[0]) return;
  const Places places = places_of(*coord);
  if (places.empty()) return;
  const PlaceFrame frame(places);
  const auto wanted = classes_of(*right);
  const auto order = by_frequency(wanted);
  if (task.first) all.push_back(classes_picture(kReferenceSide, frame, places, wanted, order));
  const NamedTensor* got = task.got ? result_of_axes(task.got->tensors, "logits", 2) : nullptr;
  if (!got || got->shape != right->shape) return;
  const auto own = classes_of(*got);
  all.push_back(classes_picture(task.side, frame, places, own, order));
  Picture picture{.result = "classes of points",
                  .side = task.side,
                  .difference = true,
                  .unit = "points with another class",
                  .drawing = frame.empty_drawing()};
  for (size_t i = 0; i < own.size(); ++i)
    if (own[i] != wanted[i]) picture.worst = 1, picture.mean += 1;
  const auto others = static_cast<int64_t>(picture.mean);
  picture.mean /= static_cast<double>(own.size());
  draw_dots(
      frame, places, [&](size_t i) { return own[i] == wanted[i] ? kColours : 1; }, picture.drawing);
  picture.drawing.keys = {{1, std::to_string(others) + " of " + std::to_string(own.size()) +
                                  " points have another class"},
                          {kColours, "the same class"}};
  all.push_back(std::move(picture));
}
FK_PICTURES(points, add_clouds);

}  // namespace

}  // namespace fk
