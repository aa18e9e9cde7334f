// SPDX-License-Identifier: Apache-2.0
// If this fails, the denoise engine mixes requests of a batch, or forgets a step or its noise. Or it
// combines the predictions with and without the condition wrongly.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/json.hpp"
#include "core/engines/denoise/engine.hpp"
#include "test/catch.hpp"
#include "test/engines/session.hpp"

namespace {

constexpr int64_t kWide = 5;
constexpr int64_t kSteps = 6;

const fk::Json kEuler = {{"_class_name", "EulerDiscreteScheduler"}, {"num_train_timesteps", 100}};

std::unique_ptr<fk::Model> toy_denoiser(double guidance, double shake = 0) {
  const fk::Json json{{"architectures", {"ToyDenoiser"}},
                      {"width", kWide},
                      {"guidance", guidance},
                      {"shake", shake},
                      {"steps", kSteps},
                      {"scheduler", kEuler}};
  return fk::make_model("toy_denoiser", fk::Config(json, "toy"));
}

// The result of element i by the toy's own rule.
double followed(const fk::Request& request, size_t i, double guidance, double shake = 0) {
  const fk::DiffusionSampler sampler = fk::read_sampler(fk::Config(kEuler, "scheduler"), kSteps);
  double x = static_cast<double>(request.tensors[0].values[i]);
  const double wanted = static_cast<double>(request.tensors[1].values[i]) +
                        static_cast<double>(request.tensors[2].values[0]);
  for (size_t s = 0; s < sampler.steps.size(); ++s) {
    const auto& step = sampler.steps[s];
    if (shake > 0)
      x += shake * static_cast<double>(s + 1) *
           static_cast<double>(request.tensors[3].values[s * kWide + i]);
    const double sum = x * step.scale + wanted;
    const double prediction = 0.25 * sum + guidance * (0.5 * sum - 0.25 * sum);
    x = step.latent * x + step.prediction * prediction;
  }
  return 2 * x;
}

}  // namespace

TEST_CASE("requests of a batch make all steps, each from its own noise") {
  const double guidance = GENERATE(1.0, 5.0), shake = GENERATE(0.0, 0.3);
  const auto model = toy_denoiser(guidance, shake);
  auto requests = model->engine()->correctness_requests({}, 3);
  REQUIRE(requests.size() >= 3);
  fk::Limits limits;
  limits.max_batch = 2;  // so that requests wait for others
  engine_test::OnCpu cpu;
  const auto answers = cpu.drive(*model, limits, requests).answers;
  for (const auto& request : requests) {
    const auto& answer = answers.at(request.id);
    REQUIRE(answer.failed.empty());
    REQUIRE(answer.tensors.size() == 1);
    REQUIRE(answer.tensors[0].values.size() == kWide);
    double size = 0, error = 0;
    for (size_t i = 0; i < kWide; ++i) {
      const double want = followed(request, i, guidance, shake);
      size = std::max(size, std::fabs(want));
      error = std::max(error, std::fabs(want - static_cast<double>(answer.tensors[0].values[i])));
    }
    CHECK(error < 1e-5 * size);
  }
}

TEST_CASE("a request without its noise is refused, and the others are served") {
  const auto model = toy_denoiser(1);
  auto requests = model->engine()->correctness_requests({}, 3);
  requests[1].tensors.erase(requests[1].tensors.begin());
  engine_test::OnCpu cpu;
  const auto answers = cpu.drive(*model, {}, requests).answers;
  CHECK_THAT(answers.at(requests[1].id).failed, ContainsSubstring("`noise`"));
  CHECK(answers.at(requests[2].id).tensors.size() == 1);
}

TEST_CASE("whole numbers of a request are below their limit, and others are refused") {
  const auto model = toy_denoiser(1);
  auto requests = model->engine()->correctness_requests({}, 3);
  REQUIRE(requests.size() >= 4);
  for (const auto& request : requests) {
    const float row = request.tensors[2].values[0];
    CHECK((row == 0 || row == 1 || row == 2));
  }
  requests[0].tensors[2].values[0] = 3;
  requests[1].tensors[2].values[0] = 0.5F;
  requests[2].tensors[2].values[0] = -1;
  engine_test::OnCpu cpu;
  const auto answers = cpu.drive(*model, {}, requests).answers;
  for (size_t i = 0; i < 3; ++i)
    CHECK_THAT(answers.at(requests[i].id).failed,
               ContainsSubstring("`row` needs whole numbers from 0 to 2"));
  CHECK(answers.at(requests[3].id).failed.empty());
}
