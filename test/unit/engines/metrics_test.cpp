// SPDX-License-Identifier: Apache-2.0
// If this fails, a metric calls other classes or detections right, or equal ones wrong.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/exec/metric.hpp"
#include "core/exec/model_info.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"

#include <fstream>

namespace {

using fk::Answers;
using fk::NamedTensor;

constexpr int64_t kClasses = 1000, kImages = 4, kQueries = 40, kLabels = 3;

double more(const fk::ErrorNumbers& errors, const std::string& name) {
  for (const auto& distance : errors.more)
    if (distance.name == name) return distance.value;
  FAIL("no figure " << name);
  return 0;
}

const fk::Metric& metric(const char* name) {
  const fk::Metric* found = fk::find_metric(name);
  REQUIRE(found != nullptr);
  return *found;
}

Answers classes(double noise, uint64_t seed) {
  fk::Random values(1), errors(seed);
  Answers answers;
  for (uint64_t id = 1; id <= kImages; ++id) {
    NamedTensor logits{"logits", {kClasses}, {}};
    for (int64_t i = 0; i < kClasses; ++i)
      logits.values.push_back(static_cast<float>(values.normal() + noise * errors.normal()));
    answers[id].tensors.push_back(std::move(logits));
  }
  return answers;
}

// Boxes on a grid, so that none overlaps another; three classes in turn, one class a query.
Answers detections(double noise, uint64_t seed) {
  fk::Random values(2), errors(seed);
  Answers answers;
  for (uint64_t id = 1; id <= 2; ++id) {
    NamedTensor logits{"logits", {kQueries, kLabels}, {}}, boxes{"pred_boxes", {kQueries, 4}, {}};
    for (int64_t q = 0; q < kQueries; ++q) {
      for (int64_t label = 0; label < kLabels; ++label)
        logits.values.push_back(static_cast<float>((label == q % kLabels ? 3 : -30) +
                                                   values.uniform() + noise * errors.normal()));
      for (const double number : {0.05 + 0.1 * static_cast<double>(q % 8),
                                  0.1 + 0.2 * static_cast<double>(q / 8), 0.08, 0.16})
        boxes.values.push_back(static_cast<float>(number + noise * errors.normal()));
    }
    answers[id].tensors = {std::move(logits), std::move(boxes)};
  }
  return answers;
}

// The queries in another order.
Answers turned(Answers answers) {
  for (auto& [id, r] : answers)
    for (auto& tensor : r.tensors)
      std::rotate(tensor.values.begin(), tensor.values.begin() + 7 * tensor.shape[1],
                  tensor.values.end());
  return answers;
}

}  // namespace

TEST_CASE("metrics are found by name") {
  for (const char* name : {"logits", "embeddings", "cls", "det"}) metric(name);
  CHECK(fk::find_metric("logit") == nullptr);
  const Folder folder;
  std::filesystem::create_directories(folder.path / "llm");
  const auto file = folder.path / "llm" / "mine.yaml";
  std::ofstream(file) << "arch: mine\ndomain: llm\nsummary: a\ncorrectness: logit\n";
  CHECK_THAT(message_of<fk::Error>([&] { fk::ModelInfo::load(file); }),
             ContainsSubstring("did you mean `logits`"));
}

TEST_CASE("cls has the figures of logits, and the divergence of classes") {
  const Answers want = classes(0, 2), got = classes(1e-3, 3);
  const auto values = metric("logits").compare(got, want, false);
  const auto errors = metric("cls").compare(got, want, false);
  CHECK(errors.rms == values.rms);
  CHECK(errors.worst1 == values.worst1);
  CHECK(values.more.empty());
  CHECK(more(metric("cls").compare(want, want, false), "kl") == 0);
  // About half of the variance of the errors.
  CHECK(more(errors, "kl") == Approx(0.5e-6).epsilon(0.2));
  CHECK(more(errors, "regret") == 0);
}

TEST_CASE("cls finds one wrong class among a thousand that the values' errors hide") {
  const Answers want = classes(0, 2);
  const auto baseline = metric("cls").compare(classes(0.05, 3), want, false);
  const fk::ErrorScale scale{fk::DType::bf16, 24, 0.1, 0};
  const auto limits = metric("cls").candidate_limits(baseline, scale);
  Answers got = classes(0.05, 4);
  CHECK(metric("cls").compare(got, want, false).rms < limits.rms);
  CHECK(more(metric("cls").compare(got, want, false), "regret") <= limits.more[1]);
  // A class in the middle is now the first.
  auto& row = got.at(1).tensors[0].values;
  for (float& value : row)
    if (std::abs(value) < 0.001F) value = 6;
  const auto wrong = metric("cls").compare(got, want, false);
  CHECK(wrong.worst1 < limits.worst1);
  CHECK(more(wrong, "top1_other") == 0.25);
  CHECK(more(wrong, "regret") > limits.more[1]);
  CHECK(more(wrong, "kl") > limits.more[0]);
}

TEST_CASE("det compares detections in any order of queries") {
  const Answers want = detections(0, 1);
  const auto same = metric("det").compare(turned(want), want, false);
  CHECK(same.wrong.empty());
  CHECK(same.rms == 0);
  CHECK(more(same, "map_loss") == Approx(0).margin(1e-12));
  CHECK(metric("logits").compare(turned(want), want, false).rms > 0.1);
  const auto near = metric("det").compare(detections(1e-4, 5), want, false);
  CHECK(more(near, "map_loss") < 0.01);
  const auto limits =
      metric("det").baseline_limits(near, {fk::DType::f32, 6, /*limit=*/1e-4, /*coarse=*/0});
  CHECK(near.rms <= limits.rms);
  CHECK(more(near, "map_loss") <= limits.more[0]);
}

TEST_CASE("det finds a detection whose place among close scores is another") {
  Answers want = detections(0, 1), got = want;
  for (uint64_t id = 1; id <= 2; ++id)
    for (size_t q = 0; q < kQueries; ++q) {
      const size_t at = kLabels * q + q % kLabels;
      want.at(id).tensors[0].values[at] = 3 + 1e-5F * static_cast<float>(q);
      got.at(id).tensors[0].values[at] = 3 - 1e-5F * static_cast<float>(q);
    }
  CHECK(metric("det").compare(got, want, false).rms < 1e-3);
}

TEST_CASE("det allows a query several likely classes") {
  Answers want = detections(0, 1);
  fk::Random values(7);
  for (auto& [id, r] : want)
    for (float& logit : r.tensors[0].values) logit = static_cast<float>(values.normal());
  CHECK(more(metric("det").compare(want, want, false), "map_loss") == Approx(0).margin(1e-12));
  CHECK(metric("det").compare(turned(want), want, false).rms == 0);
  // Each query has the box of another.
  Answers got = want;
  for (auto& [id, r] : got) std::ranges::reverse(r.tensors[1].values);
  CHECK(more(metric("det").compare(got, want, false), "map_loss") > 0.5);
}

TEST_CASE("det has the precision that COCO would have") {
  const Answers want = detections(0, 1);
  // Boxes of 0.8 of the width overlap by 0.8: right at 0.50 to 0.80, seven of ten thresholds.
  Answers got = want;
  for (auto& [id, r] : got)
    for (size_t q = 0; q < kQueries; ++q) r.tensors[1].values[4 * q + 2] *= 0.8001F;
  CHECK(more(metric("det").compare(got, want, false), "map_loss") == Approx(0.3).margin(1e-9));
  // Every detection has another label.
  got = want;
  for (auto& [id, r] : got)
    for (size_t q = 0; q < kQueries; ++q)
      std::rotate(r.tensors[0].values.begin() + static_cast<std::ptrdiff_t>(3 * q),
                  r.tensors[0].values.begin() + static_cast<std::ptrdiff_t>(3 * q + 1),
                  r.tensors[0].values.begin() + static_cast<std::ptrdiff_t>(3 * q + 3));
  CHECK(more(metric("det").compare(got, want, false), "map_loss") > 0.5);
  got = want;
  got.at(1).tensors[1].values[0] = NAN;
  CHECK_FALSE(metric("det").compare(got, want, false).wrong.empty());
  got.at(1).tensors[1].name = "boxes";
  CHECK_THAT(metric("det").compare(got, want, false).wrong, ContainsSubstring("pred_boxes"));
}

namespace {

constexpr int64_t kChunk = 16, kJoints = 4;

// Chunks of actions, whose last dimension moves a tenth as far as the others. `still`: that
// dimension keeps its mean.
Answers chunks(double noise, uint64_t seed, bool still = false) {
  fk::Random values(3), errors(seed);
  Answers answers;
  for (uint64_t id = 1; id <= kImages; ++id) {
    NamedTensor actions{"actions", {kChunk, kJoints}, {}};
    for (int64_t i = 0; i < kChunk * kJoints; ++i) {
      const bool gripper = i % kJoints == kJoints - 1;
      const double value = values.normal() * (gripper ? 0.1 : 1);
      actions.values.push_back(
          static_cast<float>((gripper && still ? 0 : value) + noise * errors.normal()));
    }
    answers[id].tensors.push_back(std::move(actions));
  }
  return answers;
}

}  // namespace

TEST_CASE("a gripper that stands still is wrong, though actions as a whole are close") {
  const fk::Metric& act = metric("act");
  const Answers want = chunks(0, 0);
  const fk::ErrorNumbers equal = act.compare(want, want, false);
  CHECK(more(equal, "unexplained") == 0);
  CHECK(more(equal, "narrowest") > 0.005);
  CHECK(more(equal, "narrowest") < 0.02);
  const fk::ErrorNumbers still = act.compare(chunks(0, 0, true), want, false);
  CHECK(still.rms < 0.1);
  CHECK(more(still, "unexplained") > 0.9);
  const fk::ErrorNumbers noisy = act.compare(chunks(0.003, 5), want, false);
  const fk::ErrorScale scale{fk::DType::bf16, 8, 0.01, 0};
  const fk::ErrorLimits limits = act.candidate_limits(noisy, scale);
  const fk::ErrorNumbers other = act.compare(chunks(0.003, 6), want, false);
  REQUIRE(limits.more.size() == other.more.size());
  CHECK(more(other, "unexplained") < limits.more[0]);
  CHECK(more(still, "unexplained") > limits.more[0]);
}

namespace {

// Latents of the standard deviation 1, and images ten times as large.
Answers drawings(double noise, double image_noise, uint64_t seed) {
  fk::Random values(4), errors(seed);
  Answers answers;
  for (uint64_t id = 1; id <= 2; ++id) {
    NamedTensor latents{"latents", {16, 16, 4}, {}}, image{"image", {32, 32, 3}, {}};
    for (int64_t i = 0; i < 16 * 16 * 4; ++i)
      latents.values.push_back(static_cast<float>(values.normal() + noise * errors.normal()));
    for (int64_t i = 0; i < 32 * 32 * 3; ++i)
      image.values.push_back(
          static_cast<float>(10 * (values.normal() + image_noise * errors.normal())));
    answers[id].tensors.push_back(std::move(latents));
    answers[id].tensors.push_back(std::move(image));
  }
  return answers;
}

}  // namespace

TEST_CASE("lat looks at the direction of latents and at the noise of images, each alone") {
  const fk::Metric& lat = metric("lat");
  const Answers want = drawings(0, 0, 0);
  const fk::ErrorNumbers equal = lat.compare(want, want, false);
  CHECK(more(equal, "angle") < 1e-12);
  CHECK(more(equal, "noise") == 0);
  // The error of an image does not hide in the latents' errors, nor the other way round.
  const fk::ErrorNumbers image = lat.compare(drawings(0, 0.1, 7), want, false);
  CHECK(image.rms == 0);
  CHECK(more(image, "angle") < 1e-12);
  // The range of 3072 normal numbers is about 7 standard deviations: 0.1^2 / 7^2.
  CHECK(more(image, "noise") > 1e-4);
  CHECK(more(image, "noise") < 4e-4);
  const fk::ErrorNumbers turned = lat.compare(drawings(0.1, 0, 7), want, false);
  CHECK(more(turned, "noise") == 0);
  CHECK(more(turned, "angle") > 0.1 * 0.1 / 4);
  CHECK(more(turned, "angle") < 0.1 * 0.1);
  // A candidate with the baseline's errors is right, and one with three times these is not.
  const fk::ErrorScale scale{fk::DType::bf16, 1, 0.01, 0};
  const fk::ErrorNumbers own = lat.compare(drawings(0.1, 0.1, 5), want, false);
  const fk::ErrorLimits limits = lat.candidate_limits(own, scale);
  REQUIRE(limits.more.size() == 2);
  const fk::ErrorNumbers other = lat.compare(drawings(0.1, 0.1, 6), want, false);
  CHECK(more(other, "angle") < limits.more[0]);
  CHECK(more(other, "noise") < limits.more[1]);
  Answers empty = want;
  for (auto& [id, answer] : empty)
    for (float& value : answer.tensors[1].values) value = 0;
  CHECK(more(lat.compare(empty, want, false), "noise") > 1e-2);
  empty.at(1).tensors.pop_back();
  CHECK_THAT(lat.compare(empty, want, false).wrong, ContainsSubstring("image"));
}

namespace {

// Four frames of latents, and eight of a video. The latents of frame `moved` are off by `noise`.
Answers filmed(int64_t moved, double noise, uint64_t seed) {
  fk::Random values(4), errors(seed);
  Answers answers;
  NamedTensor latents{"latents", {4, 8, 8, 4}, {}}, video{"video", {8, 16, 16, 3}, {}};
  for (int64_t i = 0; i < 4 * 256; ++i) {
    const double error = i / 256 == moved ? noise * errors.normal() : 0;
    latents.values.push_back(static_cast<float>(values.normal() + error));
  }
  for (int64_t i = 0; i < 8 * 768; ++i) {
    const double error = i / 1536 == moved ? noise * errors.normal() : 0;
    video.values.push_back(static_cast<float>(values.normal() + error));
  }
  answers[1].tensors = {latents, video};
  return answers;
}

}  // namespace

TEST_CASE("vid finds one wrong frame among right ones") {
  const fk::Metric& vid = metric("vid");
  const Answers want = filmed(0, 0, 0);
  const fk::ErrorNumbers equal = vid.compare(want, want, false);
  CHECK(more(equal, "angle") < 1e-12);
  CHECK(more(equal, "mean_noise") == 0);
  const fk::ErrorNumbers one = vid.compare(filmed(2, 1, 7), want, false);
  // An error as large as the values turns them by 45 degrees: 1 - 0.71.
  CHECK(more(one, "angle") > 0.2);
  CHECK(more(one, "angle") < 0.4);
  CHECK(std::fabs(more(one, "mean_angle") - more(one, "angle") / 4) < 1e-9);
  // Two of eight frames of the video.
  CHECK(more(one, "noise") > more(one, "mean_noise") * 3.5);
  CHECK(more(one, "noise") < more(one, "mean_noise") * 6);
  const fk::ErrorScale scale{fk::DType::bf16, 1, 0.01, 0};
  const fk::ErrorLimits limits =
      vid.candidate_limits(vid.compare(filmed(2, 0.01, 5), want, false), scale);
  REQUIRE(limits.more.size() == 4);
  CHECK(more(vid.compare(filmed(2, 0.01, 6), want, false), "angle") < limits.more[0]);
  CHECK(more(one, "angle") > limits.more[0]);
  CHECK(more(one, "noise") > limits.more[2]);
  Answers cut = want;
  cut.at(1).tensors.pop_back();
  CHECK_THAT(vid.compare(cut, want, false).wrong, ContainsSubstring("video"));
}

namespace {

// A result of `width` normal numbers for each request; every request has its own.
Answers recommended(int64_t requests, int64_t width, double noise, uint64_t seed) {
  fk::Random values(4), errors(seed);
  Answers answers;
  for (int64_t id = 1; id <= requests; ++id) {
    NamedTensor scores{"scores", {width}, {}};
    for (int64_t i = 0; i < width; ++i)
      scores.values.push_back(static_cast<float>(values.normal() + noise * errors.normal()));
    answers[static_cast<uint64_t>(id)].tensors.push_back(std::move(scores));
  }
  return answers;
}

}  // namespace

TEST_CASE("rec has no loss for equal orders, and half of all pairs wrong for a random order") {
  const fk::Metric& rec = metric("rec");
  constexpr int64_t kClicks = 200, kUsers = 20, kItems = 500;
  const Answers clicks = recommended(kClicks, 1, 0, 0), users = recommended(kUsers, kItems, 0, 0);
  for (const Answers* all : {&clicks, &users}) {
    const fk::ErrorNumbers equal = rec.compare(*all, *all, false);
    CHECK(more(equal, "auc_loss") == 0);
    CHECK(more(equal, "regret") == 0);
    CHECK(more(equal, "ndcg_loss") == 0);
  }
  const fk::ErrorNumbers shuffled = rec.compare(recommended(kClicks, 1, 1e6, 7), clicks, false);
  CHECK(std::abs(more(shuffled, "auc_loss") - 0.5) < 0.1);
  const fk::ErrorNumbers mixed = rec.compare(recommended(kUsers, kItems, 1e6, 7), users, false);
  CHECK(more(mixed, "ndcg_loss") > 0.3);
}

TEST_CASE("rec allows small errors, and no other order") {
  const fk::Metric& rec = metric("rec");
  const fk::ErrorScale scale{fk::DType::f32, 8, 0.01, 0};
  for (const int64_t width : {int64_t{1}, int64_t{300}}) {
    const Answers want = recommended(100, width, 0, 0);
    const fk::ErrorNumbers noisy = rec.compare(recommended(100, width, 0.003, 5), want, false);
    const fk::ErrorLimits limits = rec.candidate_limits(noisy, scale);
    const fk::ErrorNumbers other = rec.compare(recommended(100, width, 0.003, 6), want, false);
    const fk::ErrorNumbers wrong = rec.compare(recommended(100, width, 1, 6), want, false);
    REQUIRE(limits.more.size() == other.more.size());
    for (size_t i = 0; i < limits.more.size(); ++i) CHECK(other.more[i].value <= limits.more[i]);
    const size_t judged = width == 1 ? 1 : 2;  // regret, or ndcg_loss
    CHECK(wrong.more[judged].value > limits.more[judged]);
  }
}

namespace {

// Images of waves, moved by `shifted` pixels. The last image alone has noise.
Answers rendered(double noise, uint64_t seed, int64_t shifted = 0) {
  constexpr int64_t kRows = 40, kColumns = 56;
  fk::Random errors(seed);
  Answers answers;
  for (uint64_t id = 1; id <= kImages; ++id) {
    NamedTensor image{"image", {kRows, kColumns, 3}, {}};
    for (int64_t i = 0; i < kRows * kColumns * 3; ++i) {
      const auto x = static_cast<double>(i / 3 % kColumns + shifted);
      const auto y = static_cast<double>(i / 3 / kColumns);
      const double value = 0.5 + 0.5 * std::sin(x * 0.7 + y * 0.3 + static_cast<double>(i % 3));
      const double error = id == kImages ? noise * errors.normal() : 0;
      image.values.push_back(static_cast<float>(value + error));
    }
    answers[id].tensors.push_back(std::move(image));
  }
  return answers;
}

}  // namespace

TEST_CASE("ren knows the error of the worst image, and an image of another structure") {
  const fk::Metric& ren = metric("ren");
  const Answers want = rendered(0, 0);
  const fk::ErrorNumbers equal = ren.compare(want, want, false);
  CHECK(more(equal, "mse") == 0);
  CHECK(std::abs(more(equal, "ssim_loss")) < 1e-12);
  const fk::ErrorNumbers noisy = ren.compare(rendered(0.01, 5), want, false);
  CHECK(std::abs(more(noisy, "mse") - 1e-4) < 2e-5);
  const fk::ErrorNumbers shifted = ren.compare(rendered(0, 0, 3), want, false);
  CHECK(more(shifted, "ssim_loss") > 0.5);

  const fk::ErrorScale scale{fk::DType::f32, 8, 0.01, 0};
  const fk::ErrorLimits limits = ren.candidate_limits(noisy, scale);
  const fk::ErrorNumbers other = ren.compare(rendered(0.01, 6), want, false);
  const fk::ErrorNumbers wrong = ren.compare(rendered(0.2, 6), want, false);
  REQUIRE(limits.more.size() == other.more.size());
  for (size_t i = 0; i < 2; ++i) {
    CHECK(other.more[i].value <= limits.more[i]);
    CHECK(wrong.more[i].value > limits.more[i]);
    CHECK(shifted.more[i].value > limits.more[i]);
  }
}

TEST_CASE("ren needs an image") {
  CHECK_THAT(metric("ren").compare(classes(0, 0), classes(0, 0), false).wrong,
             ContainsSubstring("[rows, columns, colours]"));
}

namespace {

// Two requests with masks of logits, which are moved by `shift` and noisy.
Answers masked(float noise, float shift, uint64_t seed) {
  Answers answers;
  fk::Random errors(seed);
  for (uint64_t id = 0; id < 2; ++id) {
    NamedTensor masks{"pred_masks", {3, 16, 16}, {}};
    for (int64_t i = 0; i < 3 * 16 * 16; ++i) {
      const auto column = static_cast<float>(i % 16), mask = static_cast<float>(i / 256);
      masks.values.push_back(column - 6 - mask + shift +
                             noise * static_cast<float>(errors.normal()));
    }
    answers[id].tensors.push_back(std::move(masks));
  }
  return answers;
}

}  // namespace

TEST_CASE("seg knows masks which lie elsewhere, and classes of points") {
  const fk::Metric& seg = metric("seg");
  const Answers want = masked(0, 0.5F, 0);
  CHECK(more(seg.compare(want, want, false), "iou_loss") == 0);
  // Masks of 10, 9 and 8 columns lose one of them.
  const double lost = 1 - (9.0 / 10 + 8.0 / 9 + 7.0 / 8) / 3;
  CHECK(std::abs(more(seg.compare(masked(0, -0.5F, 0), want, false), "iou_loss") - lost) < 1e-9);
  CHECK_THAT(seg.compare(rendered(0, 0), rendered(0, 0), false).wrong,
             ContainsSubstring("pred_masks"));
  const Answers points = classes(0, 0);
  CHECK(seg.compare(points, points, false).wrong.find("pred_masks") != std::string::npos);

  // One of four points goes to the other class: overlaps of 1 of 2 and 2 of 3.
  Answers truth, guess;
  truth[1].tensors = {{"logits", {4, 2}, {1, 0, 1, 0, 0, 1, 0, 1}}};
  guess[1].tensors = {{"logits", {4, 2}, {1, 0, 0, 1, 0, 1, 0, 1}}};
  CHECK(std::abs(more(seg.compare(guess, truth, false), "iou_loss") - (1 - (0.5 + 2.0 / 3) / 2)) <
        1e-9);

  const fk::ErrorScale scale{fk::DType::f32, 8, 0.01, 0};
  const fk::ErrorNumbers noisy = seg.compare(masked(1e-4F, 0.5F, 3), want, false);
  const fk::ErrorLimits limits = seg.candidate_limits(noisy, scale);
  REQUIRE(limits.more.size() == 1);
  CHECK(seg.compare(masked(1e-4F, 0.5F, 4), want, false).more[0].value <= limits.more[0]);
  CHECK(seg.compare(masked(0, -0.5F, 4), want, false).more[0].value > limits.more[0]);
}
