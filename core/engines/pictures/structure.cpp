// SPDX-License-Identifier: Apache-2.0
// Structures: the result `atom_positions` [atoms, 3] as a trace through the atoms in their order. A
// side's structure lies over the reference's, moved and turned to it. The difference is a curve of
// the distances of all atoms.
#include <algorithm>
#include <cmath>

#include "core/engines/pictures/places.hpp"

namespace fk {

namespace {

constexpr int64_t kAtomsMost = 4000;  // of a trace
constexpr int64_t kReferenceColour = 7, kOwnColour = 0, kCurveColour = 1;
const char* const kPositions = "atom_positions";

void draw_trace(const PlaceFrame& frame, const Places& atoms, int64_t colour, double width,
                const std::string& words, Drawing& drawing) {
  const int64_t step = (std::ssize(atoms) + kAtomsMost - 1) / kAtomsMost;
  const auto at = frame.at(atoms, step);
  drawing.marks.push_back({"line", colour, width, at});
  drawing.marks.push_back({"dots", colour, width + 3, at});
  drawing.keys.push_back({colour, words});
}

Picture curve_of(const PictureTask& task, const Places& own, const Places& wanted) {
  constexpr int64_t kWidth = 1000, kHeight = 240, kBase = 230, kTop = 10;
  Picture picture{.result = kPositions, .side = task.side, .difference = true, .unit = "length"};
  if (own.empty()) {  // a NaN is as far away as possible
    picture.worst = picture.mean = HUGE_VAL;
    return picture;
  }
  std::vector<double> apart;
  for (size_t i = 0; i < wanted.size(); ++i) apart.push_back(distance_of(own[i], wanted[i]));
  const auto count = static_cast<double>(apart.size());
  for (const double d : apart) picture.mean += d / count;
  picture.worst = *std::ranges::max_element(apart);
  // A column of the frame shows the largest distance of its atoms.
  std::vector<double> columns(static_cast<size_t>(std::min<int64_t>(kWidth, std::ssize(apart))));
  const auto of = [&](size_t i) { return i * columns.size() / apart.size(); };
  for (size_t i = 0; i < apart.size(); ++i) columns[of(i)] = std::max(columns[of(i)], apart[i]);
  const double white = picture.worst > 0 ? picture.worst : 1;
  Mark curve{"line", kCurveColour, 2, {}};
  for (size_t i = 0; i < columns.size(); ++i) {
    curve.at.push_back(static_cast<int64_t>(i) * kWidth /
                       std::max<int64_t>(1, std::ssize(columns) - 1));
    curve.at.push_back(kBase - std::llround((kBase - kTop) * columns[i] / white));
  }
  picture.drawing = {kWidth,
                     kHeight,
                     {{"line", kReferenceColour, 1, {0, kBase, kWidth, kBase}}, std::move(curve)},
                     {{kCurveColour, "distance of each atom, from atom 0 to atom " +
                                         std::to_string(apart.size() - 1)}}};
  return picture;
}

void add_structures(const PictureTask& task, std::vector<Picture>& all) {
  const NamedTensor* right = result_of_axes(task.want.tensors, kPositions, 2);
  if (!right || right->shape[1] != 3) return;
  const Places wanted = places_of(*right);
  if (wanted.empty()) return;
  const PlaceFrame frame(wanted);
  const std::string words = "reference, " + std::to_string(wanted.size()) + " atoms";
  if (task.first) {
    Picture picture{.result = kPositions, .side = kReferenceSide, .drawing = frame.empty_drawing()};
    draw_trace(frame, wanted, kOwnColour, 1.5, words, picture.drawing);
    all.push_back(std::move(picture));
  }
  const NamedTensor* got = task.got ? result_of_axes(task.got->tensors, kPositions, 2) : nullptr;
  if (!got || got->shape != right->shape) return;
  Places own = places_of(*got);
  if (!own.empty()) {
    own = superposed(own, wanted);
    Picture picture{.result = kPositions, .side = task.side, .drawing = frame.empty_drawing()};
    draw_trace(frame, wanted, kReferenceColour, 5, words, picture.drawing);
    draw_trace(frame, own, kOwnColour, 1.5, task.side + ", moved and turned to the reference",
               picture.drawing);
    all.push_back(std::move(picture));
  }
  all.push_back(curve_of(task, own, wanted));
}
FK_PICTURES(structure, add_structures);

}  // namespace

}  // namespace fk
