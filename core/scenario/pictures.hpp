// SPDX-License-Identifier: Apache-2.0
// Results which are images or sounds, for people: the reference's, a side's, and their difference.
#pragma once
#include <string>
#include <vector>

#include "core/exec/metric.hpp"

namespace fk {

struct Picture {
  std::string result;          // its name: "image"
  std::string side;            // the reference, the baseline, or a candidate
  bool difference = false;     // from the reference, as an absolute value; white is `worst`
  double worst = 0, mean = 0;  // of a difference, as shares of the way from black to white
  int64_t width = 0, height = 0;
  std::string png = {};  // in base64; empty: a build without libpng
  std::string wav = {};  // of a sound, in base64: its first 20 seconds
};

inline constexpr const char* kReferenceSide = "reference";

// Adds a side's images of the first request, each with its difference from the reference's. The
// first side's come behind the reference's. An image is reduced to at most 512 pixels a side, but
// numbers are those of the whole image. A sound [samples, 1] is shown by its spectrogram, and a
// spectrogram [frames, bands] with frames as columns.
void add_pictures(const Metric& metric, const std::string& side, const Answers& got,
                  const Answers& want, std::vector<Picture>& all);

}  // namespace fk
