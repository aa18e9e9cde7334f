// SPDX-License-Identifier: Apache-2.0
// If this fails, the rollout engine mixes requests of a batch, or shows a frame to others at
// another time or place. Or it keeps a frame which has left the window.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/json.hpp"
#include "core/engines/rollout/engine.hpp"
#include "test/catch.hpp"
#include "test/engines/session.hpp"

namespace {

constexpr int64_t kWidth = 3, kPrompt = 2, kFrames = 6, kSteps = 3;
constexpr double kSeen = 0.75;

std::unique_ptr<fk::Model> toy_world(int64_t window) {
  const fk::Json json{{"architectures", {"ToyWorld"}},
                      {"width", kWidth},
                      {"prompt", kPrompt},
                      {"frames", kFrames},
                      {"window", window},
                      {"seen", kSeen},
                      {"steps", kSteps}};
  return fk::make_model("toy_world", fk::Config(json, "toy"));
}

// Number i of all frames, by the toy's own rule.
std::vector<double> played(const fk::Request& request, int64_t i, int64_t window) {
  std::vector<double> all;
  for (size_t tensor = 0; tensor < 2; ++tensor)
    for (size_t at = static_cast<size_t>(i); at < request.tensors[tensor].values.size();
         at += kWidth)
      all.push_back(static_cast<double>(request.tensors[tensor].values[at]));
  for (int64_t frame = kPrompt; frame < kFrames; ++frame) {
    const int64_t first = std::max<int64_t>(0, frame + 1 - window);
    double& x = all[static_cast<size_t>(frame)];
    for (int64_t step = 0; step < kSteps; ++step) {
      double sum = x + static_cast<double>(step);
      for (int64_t k = first; k < frame; ++k) sum += all[static_cast<size_t>(k)] + kSeen;
      x = 0.5 * x + 0.25 * sum / static_cast<double>(frame + 1 - first);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("each new frame sees the frames of its window") {
  const int64_t window = GENERATE(1, 3, 6, 9);
  const auto model = toy_world(window);
  const auto requests = model->engine()->correctness_requests({}, 3);
  REQUIRE(requests.size() >= 3);
  fk::Limits limits;
  limits.max_batch = 2;  // so that requests wait for others
  engine_test::OnCpu cpu;
  const auto answers = cpu.drive(*model, limits, requests).answers;
  for (const auto& request : requests) {
    const auto& answer = answers.at(request.id);
    REQUIRE(answer.failed.empty());
    REQUIRE(answer.tensors.size() == 1);
    CHECK(answer.tensors[0].shape == std::vector<int64_t>{kFrames, kWidth});
    double size = 0, error = 0;
    for (int64_t i = 0; i < kWidth; ++i) {
      const auto want = played(request, i, window);
      for (int64_t frame = 0; frame < kFrames; ++frame) {
        const auto got =
            static_cast<double>(answer.tensors[0].values[static_cast<size_t>(frame * kWidth + i)]);
        size = std::max(size, std::fabs(want[static_cast<size_t>(frame)]));
        error = std::max(error, std::fabs(want[static_cast<size_t>(frame)] - got));
      }
    }
    CHECK(error < 1e-5 * size);
  }
}

TEST_CASE("a request without its noise is refused, and the other worlds go on") {
  const auto model = toy_world(3);
  auto requests = model->engine()->correctness_requests({}, 3);
  requests[1].tensors.pop_back();
  engine_test::OnCpu cpu;
  const auto answers = cpu.drive(*model, {}, requests).answers;
  CHECK_THAT(answers.at(requests[1].id).failed, ContainsSubstring("`noise`"));
  CHECK(answers.at(requests[2].id).tensors.size() == 1);
}
