// SPDX-License-Identifier: Apache-2.0
// The number of calls in a sample of either side of a race.
#pragma once

namespace fk {

struct SampleCalls {
  int candidate = 1, baseline = 1;
  bool operator==(const SampleCalls&) const = default;
};

// Equal numbers for both sides, from 1 to `most`: as many calls as the faster side makes in
// `sample_s`. A far slower side gets fewer, because its exact ratio matters little.
SampleCalls calls_of_samples(double candidate_s, double baseline_s, double sample_s, int most);

// The same for a device: samples of both sides take about equally long, unless the sides are about
// equally fast. The first 50 calls or so of a sample write to the last cache and stay there; later
// calls wait until the cache writes back. With equal numbers, a ten times faster side would
// make half of its writes for free. On an H200 a launch that writes 256 KiB takes 1.97 us among 21
// to 60 launches, and 2.06 us among up to 200. An empty launch takes equally long in both (`plain`
// in docs/results/2026-11-26-h200-precision.json).
SampleCalls calls_as_long(double candidate_s, double baseline_s, double sample_s, int most);

// True when calls_as_long() gives about these numbers for calls of these seconds. False: the
// estimate before the race was wrong, and nobody may gain by that.
bool are_as_long(const SampleCalls& calls, double candidate_s, double baseline_s);

}  // namespace fk
