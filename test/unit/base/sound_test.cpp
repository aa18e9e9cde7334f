// SPDX-License-Identifier: Apache-2.0
// If this fails, a page plays another sound than the answer, or a tone has a spectrum of another
// frequency.
#include "core/base/sound.hpp"

#include <cmath>

#include "test/catch.hpp"

TEST_CASE("a tone has its magnitude at its frequency and beside it, and nowhere else") {
  std::vector<float> tone;
  for (int i = 0; i < 256; ++i)
    tone.push_back(static_cast<float>(std::sin(2 * M_PI * i * 10 / fk::kSpectrumFrame)));
  const auto rows = fk::magnitudes_of(tone);
  REQUIRE(std::ssize(rows) == 4 * fk::kSpectrumBins);
  CHECK(std::fabs(rows[10] - fk::kSpectrumFrame / 4) < 1e-3);
  CHECK(std::fabs(rows[11] - fk::kSpectrumFrame / 8) < 1e-3);
  CHECK(rows[13] < 1e-3);
  CHECK(rows[40] < 1e-3);
}

TEST_CASE("a WAV file has the header of one channel in 16 bits, and samples are cut") {
  const std::vector<float> samples{0, 1, -1, 2, NAN, 0.5F};
  const std::string file = fk::wav_of(samples, 24000);
  REQUIRE(file.size() == 44 + 12);
  CHECK(file.substr(0, 4) == "RIFF");
  CHECK(file.substr(8, 8) == "WAVEfmt ");
  const auto number = [&](size_t at, int bytes) {
    int64_t value = 0;
    for (int i = bytes - 1; i >= 0; --i)
      value = value << 8 | static_cast<uint8_t>(file[at + static_cast<size_t>(i)]);
    return value;
  };
  CHECK(number(4, 4) == 48);
  CHECK(number(22, 2) == 1);
  CHECK(number(24, 4) == 24000);
  CHECK(number(28, 4) == 48000);
  CHECK(number(40, 4) == 12);
  std::vector<int16_t> got;
  for (size_t i = 0; i < 6; ++i) got.push_back(static_cast<int16_t>(number(44 + 2 * i, 2)));
  CHECK(got == std::vector<int16_t>{0, 32767, -32767, 32767, 0, 16384});
}
