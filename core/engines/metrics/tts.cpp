// SPDX-License-Identifier: Apache-2.0
// Speech made of noise: the results "mel" [frames, bands] and "audio" [samples, 1]. The values are
// those of the spectrograms. Sounds are compared by their own spectra. If a pitch is off by a
// rounding, the waves in the end move by a whole oscillation.
//   angle        1 - the cosine of a request's spectrogram, the largest of all requests
//   frame_angle  the same for each frame, the median of all
//   spectrum     1 - the cosine of the magnitudes of a sound's short-time spectrum, the largest of
//                all requests
//   loudness     |log2| of the ratio of both sounds' energies, the largest of all requests
#include <algorithm>
#include <cmath>

#include "core/base/sound.hpp"
#include "core/engines/metrics/drawn.hpp"
#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

// Two independent noises with the same envelope are 0.21 apart, and sounds whose energies differ by
// a quarter differ for a listener.
constexpr double kOtherNoise = 0.1, kOtherLoudness = 0.32;

double loudness_between(std::span<const float> a, std::span<const float> b) {
  double of_a = 0, of_b = 0;
  for (const float v : a) of_a += static_cast<double>(v) * static_cast<double>(v);
  for (const float v : b) of_b += static_cast<double>(v) * static_cast<double>(v);
  if (!(of_a > 0) && !(of_b > 0)) return std::isnan(of_a) ? HUGE_VAL : 0;
  const double octaves = std::fabs(std::log2(of_a / of_b));
  return std::isnan(octaves) ? HUGE_VAL : octaves;
}

class SpeechMetric final : public ValueMetric {
 public:
  ErrorNumbers compare(const Answers& got, const Answers& want, bool routed) const override {
    ErrorNumbers errors = ValueMetric::compare(got, want, routed);
    if (!errors.wrong.empty()) return errors;
    double angle = 0, spectrum = 0, loudness = 0;
    std::vector<double> frames;
    for (const auto& [id, r] : want) {
      const RequestResult& own = got.at(id);
      const NamedTensor &mel = *drawn(own, "mel"), &right = *drawn(r, "mel");
      angle = std::max(angle, angle_between(mel.values, right.values));
      const auto width = static_cast<size_t>(right.shape.back());
      for (size_t at = 0; at + width <= right.values.size(); at += width)
        frames.push_back(angle_between(std::span(mel.values).subspan(at, width),
                                       std::span(right.values).subspan(at, width)));
      const auto sound = magnitudes_of(drawn(own, "audio")->values);
      const auto wanted = magnitudes_of(drawn(r, "audio")->values);
      spectrum = std::max(spectrum, angle_between(sound, wanted));
      loudness = std::max(loudness, loudness_between(sound, wanted));
    }
    const auto middle = frames.begin() + std::ssize(frames) / 2;
    if (middle != frames.end()) std::nth_element(frames.begin(), middle, frames.end());
    errors.more = {
        {"angle", "1 - cosine of the spectrogram", angle},
        {"frame_angle", "1 - cosine of a frame, the median", frames.empty() ? 0 : *middle},
        {"spectrum", "1 - cosine of the sound's own spectrum", spectrum},
        {"loudness", "octaves between the energies of the sounds", loudness},
    };
    return errors;
  }
  std::vector<ShownImage> images(const RequestResult&) const override {
    return {{"mel", -8, 4}, {"audio", -1, 1}};
  }

 private:
  std::string collect(const Answers& got, const Answers& want, ComparedRows& rows) const override {
    return collect_latents(got, want, "audio", rows.width, rows.values, "mel");
  }

  // Errors of a spectrogram that are a share `worst1` of its spread turn it by less than worst1^2.
  // A sound passes larger shares on. Its magnitudes are exponentials of the vocoder's results, and
  // a frame whose pitch is near the threshold may become noise.
  std::vector<double> limits(const ErrorNumbers& own, const ErrorNumbers* rival,
                             double worst1) const override {
    if (own.more.empty()) return {};
    std::vector<double> most = {worst1 * worst1, worst1 * worst1, std::min(worst1, kOtherNoise),
                                std::min(4 * worst1, kOtherLoudness)};
    for (size_t i = 0; rival && i < most.size(); ++i)
      most[i] = std::max(most[i], kOfBaseline * kOfBaseline * rival->more[i].value);
    return most;
  }
};

FK_METRIC(tts, SpeechMetric);

}  // namespace

}  // namespace fk
