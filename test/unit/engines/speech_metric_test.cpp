// SPDX-License-Identifier: Apache-2.0
// If this fails, another sound than the oracle's passes, or the same tones at another phase do not.
#include <cmath>

#include "core/exec/metric.hpp"
#include "test/catch.hpp"

namespace speech_metric_test {

namespace {

constexpr int64_t kFrames = 6, kBands = 8, kSamples = 2048;

// A spectrogram whose frame 2 is off by `wrong`, and a tone of this pitch (oscillations in 128
// samples) and phase.
fk::Answers spoken(float wrong, double pitch, double phase) {
  fk::NamedTensor mel{"mel", {kFrames, kBands}, {}}, audio{"audio", {kSamples, 1}, {}};
  for (int64_t i = 0; i < kFrames * kBands; ++i)
    mel.values.push_back(static_cast<float>(std::sin(static_cast<double>(i * i))) +
                         (i / kBands == 2 ? wrong : 0.F));
  for (int64_t i = 0; i < kSamples; ++i)
    audio.values.push_back(static_cast<float>(
        0.3 * std::sin(2 * M_PI * static_cast<double>(i) * pitch / 128 + phase)));
  fk::Answers answers;
  answers[1].tensors = {mel, audio};
  return answers;
}

double more(const fk::ErrorNumbers& errors, const std::string& name) {
  for (const auto& number : errors.more)
    if (number.name == name) return number.value;
  FAIL("no figure " << name);
  return 0;
}

}  // namespace

TEST_CASE("tts hears another pitch, not another phase, and sees a wrong frame") {
  const fk::Metric& tts = *fk::find_metric("tts");
  const fk::Answers want = spoken(0, 10, 0);
  const fk::ErrorNumbers equal = tts.compare(want, want, false);
  CHECK(more(equal, "angle") < 1e-12);
  CHECK(more(equal, "spectrum") < 1e-12);
  CHECK(more(tts.compare(spoken(0, 10, 1.5), want, false), "spectrum") < 0.01);
  CHECK(more(tts.compare(spoken(0, 17, 0), want, false), "spectrum") > 0.9);
  const fk::ErrorNumbers one = tts.compare(spoken(2, 10, 0), want, false);
  CHECK(more(one, "angle") > 0.1);
  CHECK(more(one, "frame_angle") < 1e-12);  // the median frame is right
  const fk::ErrorScale scale{fk::DType::bf16, 1, 0.01, 0};
  const fk::ErrorNumbers own = tts.compare(spoken(0.01F, 10, 0.1), want, false);
  const fk::ErrorLimits limits = tts.candidate_limits(own, scale);
  REQUIRE(limits.more.size() == 4);
  CHECK(more(one, "angle") > limits.more[0]);
  CHECK(more(own, "angle") < limits.more[0]);
  CHECK(more(tts.compare(spoken(0, 17, 0), want, false), "spectrum") > limits.more[2]);
  fk::Answers faint = want;
  for (float& v : faint.at(1).tensors[1].values) v *= 0.01F;
  const fk::ErrorNumbers quiet = tts.compare(faint, want, false);
  CHECK(more(quiet, "spectrum") < limits.more[2]);
  CHECK(more(quiet, "loudness") > limits.more[3]);
  CHECK(more(own, "loudness") < limits.more[3]);
  fk::Answers cut = want;
  cut.at(1).tensors.pop_back();
  CHECK_THAT(tts.compare(cut, want, false).wrong, ContainsSubstring("audio"));
}

}  // namespace speech_metric_test
