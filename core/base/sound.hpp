// SPDX-License-Identifier: Apache-2.0
// Sounds as samples from -1 to 1: their short-time spectrum, and a file for people.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fk {

inline constexpr int64_t kSpectrumFrame = 128;                    // samples
inline constexpr int64_t kSpectrumBins = kSpectrumFrame / 2 + 1;  // frequencies

// Magnitudes of frames, each under Hann's window and half a frame behind the last one: rows of
// kSpectrumBins. Samples beyond the end are 0.
std::vector<float> magnitudes_of(std::span<const float> samples);

// A WAV file of one channel in 16 bits. Samples beyond 1 are cut, and a NaN is 0.
std::string wav_of(std::span<const float> samples, int64_t rate);

}  // namespace fk
