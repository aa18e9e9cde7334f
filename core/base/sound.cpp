// SPDX-License-Identifier: Apache-2.0
#include "core/base/sound.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fk {

std::vector<float> magnitudes_of(std::span<const float> samples) {
  constexpr auto kSize = static_cast<size_t>(kSpectrumFrame);
  std::vector<double> cosines(kSize), part(kSize);
  for (size_t i = 0; i < kSize; ++i)
    cosines[i] = std::cos(2 * std::numbers::pi * static_cast<double>(i) / kSize);
  std::vector<float> all;
  for (size_t first = 0; first < samples.size(); first += kSize / 2) {
    for (size_t i = 0; i < kSize; ++i) {
      const double sample =
          first + i < samples.size() ? static_cast<double>(samples[first + i]) : 0;
      part[i] = sample * (0.5 - 0.5 * cosines[i]);
    }
    for (size_t f = 0; f <= kSize / 2; ++f) {
      double real = 0, imaginary = 0;
      for (size_t i = 0; i < kSize; ++i) {
        real += part[i] * cosines[f * i % kSize];
        imaginary += part[i] * cosines[(f * i + kSize / 4) % kSize];  // cos(x + a quarter) = -sin
      }
      all.push_back(static_cast<float>(std::hypot(real, imaginary)));
    }
  }
  return all;
}

std::string wav_of(std::span<const float> samples, int64_t rate) {
  std::string file;
  const auto number = [&](int64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file.push_back(static_cast<char>(value >> (8 * i) & 255));
  };
  constexpr int64_t kBytes = 2, kHeader = 36, kFormat = 16;  // kHeader: behind the first length
  const int64_t data = kBytes * std::ssize(samples);
  file += "RIFF";
  number(kHeader + data, 4);
  file += "WAVEfmt ";
  number(kFormat, 4);
  number(1, 2);  // plain samples
  number(1, 2);  // channels
  number(rate, 4);
  number(rate * kBytes, 4);
  number(kBytes, 2);
  number(8 * kBytes, 2);
  file += "data";
  number(data, 4);
  for (const float sample : samples)
    number(std::isnan(sample) ? 0 : std::lround(std::clamp(sample, -1.F, 1.F) * 32767.F), 2);
  return file;
}

}  // namespace fk
