// SPDX-License-Identifier: Apache-2.0
// If this fails, a page shows other images than the answers, or a difference of another size.
#include "core/exec/picture.hpp"

#include <cmath>

#include "core/base/base64.hpp"
#include "core/base/png.hpp"
#include "test/catch.hpp"

namespace {

using fk::Picture;

// An image of one result, "image", which `lat` shows from -1 to 1.
fk::Answers drawn_answer(std::vector<int64_t> shape, std::vector<float> values) {
  fk::Answers answers;
  answers[7].tensors = {{"latents", {2, 1}, {0, 0}},
                        {"image", std::move(shape), std::move(values)}};
  return answers;
}

std::vector<Picture> pictures_of(const fk::Answers& got, const fk::Answers& want) {
  std::vector<Picture> all;
  fk::add_pictures(*fk::find_metric("lat"), "mine", got, want, all);
  return all;
}

// In base64: an image of one colour whose pixels have these values.
std::string grey(int64_t width, int64_t height, std::vector<uint8_t> pixels) {
  return fk::base64_of(fk::png_of(width, height, 1, pixels));
}

}  // namespace

TEST_CASE(
    "a side's image, and its difference as a share of the range, are behind the reference's") {
  const auto want = drawn_answer({2, 3, 1}, {-1, 0, 1, 1, 1, 1});
  const auto got = drawn_answer({2, 3, 1}, {-1, 0, 1, 1, 0.5, 0});
  const auto all = pictures_of(got, want);
  REQUIRE(all.size() == 3);
  CHECK(all[0].side == fk::kReferenceSide);
  CHECK(all[0].png == grey(3, 2, {0, 128, 255, 255, 255, 255}));
  CHECK(all[1].side == "mine");
  CHECK(all[1].png == grey(3, 2, {0, 128, 255, 255, 191, 128}));
  CHECK(all[2].difference);
  CHECK(all[2].worst == 0.5);
  CHECK(std::fabs(all[2].mean - 0.75 / 6) < 1e-12);
  CHECK(all[2].png == grey(3, 2, {0, 0, 0, 0, 128, 255}));
}

TEST_CASE("a NaN is white in a difference, and a large image is reduced") {
  const auto nan = pictures_of(drawn_answer({1, 2, 1}, {NAN, 0}), drawn_answer({1, 2, 1}, {0, 0}));
  REQUIRE(nan.size() == 3);
  CHECK(std::isinf(nan[2].worst));
  CHECK(nan[2].png == grey(2, 1, {255, 0}));
  const std::vector<float> black(600 * 4 * 3, -1);
  const auto large = drawn_answer({600, 4, 3}, black);
  const auto all = pictures_of(large, large);
  REQUIRE(all.size() == 3);
  CHECK(all[0].height == 300);
  CHECK(all[0].width == 2);
  CHECK(all[2].worst == 0);
}

TEST_CASE("a result of another shape, or without colours, has no picture") {
  const auto want = drawn_answer({1, 2, 1}, {0, 0});
  CHECK(pictures_of(drawn_answer({2, 1, 1}, {0, 0}), want).size() == 1);
  CHECK(pictures_of({}, want).size() == 1);
  CHECK(pictures_of(want, drawn_answer({2}, {0, 0})).empty());
  CHECK(pictures_of(want, {}).empty());
}

TEST_CASE("a video is a strip of its frames side by side, at most eight of them") {
  const auto strip = [](std::vector<int64_t> shape, std::vector<float> values) {
    fk::Answers answers;
    answers[7].tensors = {{"video", std::move(shape), std::move(values)}};
    std::vector<Picture> all;
    fk::add_pictures(*fk::find_metric("vid"), "mine", answers, answers, all);
    return all;
  };
  // Two frames of two rows and one column.
  const auto two = strip({2, 2, 1, 1}, {-1, 0, 1, 1});
  REQUIRE(two.size() == 3);
  CHECK(two[0].result == "video, 2 of 2 frames");
  CHECK(two[0].png == grey(2, 2, {0, 255, 128, 255}));
  CHECK(two[2].difference);
  std::vector<float> many(15);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i) / 7 - 1;
  const auto eight = strip({15, 1, 1, 1}, many);
  REQUIRE(eight.size() == 3);
  CHECK(eight[0].result == "video, 8 of 15 frames");
  CHECK(eight[0].png == grey(8, 1, {0, 36, 73, 109, 146, 182, 219, 255}));
}

TEST_CASE("a PNG file begins with its signature") {
  const std::string file = fk::png_of(1, 1, 3, std::vector<uint8_t>{1, 2, 3});
  if (file.empty()) return;  // a build without libpng
  CHECK(file.substr(0, 8) == "\x89PNG\r\n\x1a\n");
}

TEST_CASE("a sound is a player and a spectrogram, whose first band is below") {
  fk::Answers answers;
  std::vector<float> tone;
  for (int i = 0; i < 512; ++i)
    tone.push_back(static_cast<float>(std::cos(2 * M_PI * i * 16 / 128)));
  answers[7].tensors = {{"mel", {2, 3}, {-8, -2, 4, -8, -8, -8}}, {"audio", {512, 1}, tone}};
  std::vector<Picture> all;
  fk::add_pictures(*fk::find_metric("tts"), "mine", answers, answers, all);
  REQUIRE(all.size() == 6);
  CHECK(all[0].png == grey(2, 3, {255, 0, 128, 0, 0, 0}));
  CHECK(all[0].wav.empty());
  CHECK(all[3].wav.starts_with("UklGR"));
  CHECK(all[3].height == 65);
  CHECK(all[3].width == 8);
  CHECK(all[5].difference);
  CHECK(all[5].worst == 0);
  CHECK(all[5].wav.empty());
}

namespace {

fk::Answers answer_of(std::vector<fk::NamedTensor> tensors,
                      std::vector<fk::NamedTensor> of_request = {}) {
  fk::Answers answers;
  answers[7].tensors = std::move(tensors);
  answers[7].request.tensors = std::move(of_request);
  return answers;
}

std::vector<Picture> kind_of(const char* metric, const fk::Answers& got, const fk::Answers& want) {
  std::vector<Picture> all;
  fk::add_pictures(*fk::find_metric(metric), "mine", got, want, all);
  return all;
}

// Five atoms, no two of which can change places.
const std::vector<float> kAtoms = {0, 0, 0, 4, 0, 0, 4, 3, 0, 4, 3, 2, 9, 3, 2};

fk::Answers atoms_answer(std::vector<float> places) {
  return answer_of({{"atom_positions", {5, 3}, std::move(places)}});
}

}  // namespace

TEST_CASE("a structure that is moved and turned has no distance to the reference's") {
  std::vector<float> turned, mirrored, one = kAtoms;
  for (size_t i = 0; i < kAtoms.size(); i += 3) {
    turned.insert(turned.end(), {10 - kAtoms[i + 1], kAtoms[i] - 3, kAtoms[i + 2] + 1});
    mirrored.insert(mirrored.end(), {kAtoms[i], kAtoms[i + 1], -kAtoms[i + 2]});
  }
  const auto same = kind_of("str", atoms_answer(turned), atoms_answer(kAtoms));
  REQUIRE(same.size() == 3);
  CHECK(same[0].side == fk::kReferenceSide);
  CHECK(same[0].drawing.marks.at(0).kind == "line");
  CHECK(same[0].drawing.marks.at(0).at.size() == 10);
  CHECK(same[1].drawing.marks.size() == 4);  // both lie over each other
  CHECK(same[1].drawing.marks.at(0).at == same[1].drawing.marks.at(2).at);
  CHECK(same[2].difference);
  CHECK(same[2].worst < 1e-6);
  CHECK(kind_of("str", atoms_answer(mirrored), atoms_answer(kAtoms)).at(2).worst > 0.1);
  one[14] += 4;  // the last atom, to which the others are moved a little
  const auto apart = kind_of("str", atoms_answer(one), atoms_answer(kAtoms)).at(2);
  CHECK(apart.worst > 1.5);
  CHECK(apart.worst < 4);
  const auto& curve = apart.drawing.marks.at(1).at;
  CHECK(curve.at(9) == 10);  // the last atom's distance is the highest
  CHECK(curve.at(1) > 10);
  const auto nan = kind_of("str", atoms_answer(std::vector<float>(15, NAN)), atoms_answer(kAtoms));
  REQUIRE(nan.size() == 2);
  CHECK(std::isinf(nan[1].worst));
}

TEST_CASE("points have the colours of their classes, and those of another class are shown") {
  const std::vector<fk::NamedTensor> cloud = {{"coord", {3, 3}, {0, 0, 0, 5, 0, 0, 0, 1, 0}}};
  const auto want = answer_of({{"logits", {3, 2}, {1, 0, 1, 0, 0, 1}}}, cloud);
  const auto got = answer_of({{"logits", {3, 2}, {1, 0, 0, 1, 0, 1}}}, cloud);
  const auto all = kind_of("seg", got, want);
  REQUIRE(all.size() == 3);
  REQUIRE(all[0].drawing.keys.size() == 2);
  CHECK(all[0].drawing.keys[0].text == "class 0");  // the most frequent one
  CHECK(all[0].drawing.marks.back().at.size() == 4);
  CHECK(all[1].drawing.marks.back().at.size() == 2);
  CHECK(all[2].worst == 1);
  CHECK(std::fabs(all[2].mean - 1.0 / 3) < 1e-12);
  REQUIRE(all[2].drawing.marks.size() == 2);
  CHECK(all[2].drawing.marks.back().at.size() == 2);
  CHECK(kind_of("seg", want, want).at(2).worst == 0);
}

TEST_CASE("a moved box is as far away as its corners, and one of another class is missing") {
  const auto boxes = [](std::vector<float> logits, std::vector<float> places) {
    return answer_of(
        {{"logits", {2, 2}, std::move(logits)}, {"pred_boxes", {2, 4}, std::move(places)}});
  };
  const auto want = boxes({3, 0, 0, 2}, {0.5, 0.5, 0.2, 0.4, 0.25, 0.25, 0.1, 0.1});
  const auto moved =
      kind_of("det", boxes({3, 0, 0, 2}, {0.25, 0.25, 0.1, 0.1, 0.25, 0.25, 0.1, 0.1}), want);
  REQUIRE(moved.size() == 3);
  CHECK(moved[0].drawing.marks.at(2).at == std::vector<int64_t>{400, 300, 600, 700});
  CHECK(std::fabs(moved[2].worst - 0.4) < 1e-6);  // the lower corner
  CHECK(std::fabs(moved[2].mean - 0.2) < 1e-6);
  const auto lost =
      kind_of("det", boxes({3, 0, 2, 0}, {0.5, 0.5, 0.2, 0.4, 0.25, 0.25, 0.1, 0.1}), want);
  CHECK(lost.at(2).worst == 1);
  CHECK(std::fabs(lost.at(2).mean - 0.5) < 1e-6);
  CHECK_THAT(lost.at(2).drawing.keys.at(1).text, ContainsSubstring("1 are missing"));
}

TEST_CASE("masks are shown by their largest logit, and pixels of another mask are counted") {
  const auto masks = [](std::vector<float> logits) {
    return answer_of({{"pred_masks", {2, 1, 4}, std::move(logits)}, {"pred_logits", {2}, {1, 2}}});
  };
  const auto want = masks({1, 1, -1, -1, -1, 2, 2, -1});
  const auto all = kind_of("seg", masks({1, 1, -1, -1, -1, 0.5, 2, -1}), want);
  REQUIRE(all.size() == 3);
  CHECK(all[0].width == 4);
  CHECK(all[0].height == 1);
  CHECK(all[0].png != all[1].png);
  CHECK(all[2].mean == 0.25);  // the second pixel changes to the first mask
  CHECK(kind_of("seg", want, want).at(2).mean == 0);
}
