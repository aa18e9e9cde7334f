// SPDX-License-Identifier: Apache-2.0
// How many calls a sample of either side of a race has.
#pragma once

namespace fk {

struct SampleCalls {
  int candidate = 1, baseline = 1;
  bool operator==(const SampleCalls&) const = default;
};

// For calls that take so many seconds, as many as take `sample_s` by the quicker side, and from one
// to `most`. As many on both sides, but fewer where the slower one is so slow that nobody wants to
// know by how much exactly.
SampleCalls calls_of_samples(double candidate_s, double baseline_s, double sample_s, int most);

// The same on a device, where samples are about as long on both sides unless these are about as
// quick. What the first fifty calls or so of a sample write stays in the last cache, and each later
// one has to wait until something is written back: on an H200 a launch that writes 256 KiB takes
// 1.97 us where 21 to 60 lie behind each other and 2.06 from there to 200 (`plain` in
// docs/results/2026-11-26-h200-precision.json), and an empty one no longer. With as many calls on
// both sides who is ten times as fast has half of its own for nothing.
SampleCalls calls_as_long(double candidate_s, double baseline_s, double sample_s, int most);

// Whether calls of so many seconds would have been given about as many by calls_as_long(): what was
// believed before the race may have been wrong, and nobody is to gain by that.
bool are_as_long(const SampleCalls& calls, double candidate_s, double baseline_s);

}  // namespace fk
