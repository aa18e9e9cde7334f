// SPDX-License-Identifier: Apache-2.0
// If this fails, the metric of scored texts calls a shift of all log-probabilities right.
#include <cmath>

#include "core/exec/metric.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

namespace {

// Log-probabilities of 2000 tokens, which are off by a shift and by noise.
fk::Answers likelihoods(double shift, double noise) {
  fk::Random values(11), errors(12);
  fk::NamedTensor logprobs{"logprobs", {2000, 1}, {}};
  for (int64_t i = 0; i < 2000; ++i)
    logprobs.values.push_back(
        static_cast<float>(-5 + values.normal() + shift + noise * errors.normal()));
  fk::Answers answers;
  answers[1].tensors.push_back(std::move(logprobs));
  return answers;
}

}  // namespace

TEST_CASE("nll knows a shift of all log-probabilities from noise, and refuses a large one") {
  const fk::Metric* nll = fk::find_metric("nll");
  REQUIRE(nll != nullptr);
  const fk::ErrorScale scale{fk::DType::f32, 8, 0.01, 0};
  const fk::Answers want = likelihoods(0, 0);
  const fk::ErrorNumbers noisy = nll->compare(likelihoods(0, 0.01), want, false);
  REQUIRE(noisy.more.size() == 3);
  CHECK(std::abs(noisy.more[1].value - 0.008) < 0.001);  // the mean of |normal| is 0.8
  CHECK(noisy.more[0].value < 0.001);
  CHECK(noisy.more[2].value == 2000);
  const fk::ErrorNumbers moved = nll->compare(likelihoods(0.5, 0), want, false);
  CHECK(std::abs(moved.more[0].value - 0.5) < 1e-3);
  const fk::ErrorLimits limits = nll->candidate_limits(noisy, scale);
  REQUIRE(limits.more.size() == 3);
  CHECK(noisy.more[0].value <= limits.more[0]);
  CHECK(moved.more[0].value > limits.more[0]);
  // Less than the noise of a token, but of all tokens alike.
  CHECK(nll->compare(likelihoods(0.006, 0), want, false).more[0].value > limits.more[0]);
}
