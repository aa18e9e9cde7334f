// SPDX-License-Identifier: Apache-2.0
// Whether what a runner claims about time fits what the broker's clock saw, and whether calls on
// contents that were seen before are suspiciously fast.
#pragma once
#include <string>
#include <vector>

namespace fk {

// Per sample, of one side.
struct ClockSamples {
  std::vector<double> claims_s;  // of all calls of the sample together, by the runner's clock
  std::vector<double> walls_s;   // of the whole request, by the broker's
};

// What a request takes beside its calls (messages, waking up) must be the same for both sides.
// Empty, or the evidence that the candidate's clock is slow: the difference of the clocks is larger
// than the baseline's by more than its own scatter and a twentieth of the calls' time.
// `wake_s`: by how much longer the candidate's process takes to answer a request without calls,
// which a process of many threads does honestly. No more than kWakeMost of it is believed, because
// who wants to hide work can take its time there too.
constexpr double kWakeMost = 60e-6;
std::string clock_disagreement(const ClockSamples& candidate, const ClockSamples& baseline,
                               double wake_s = 0);

// Seconds of all calls of a sample, in turns.
struct FreshSamples {
  std::vector<double> fresh_s;  // on contents that were never called before
  std::vector<double> seen_s;   // on as many others
};
// Empty, or the evidence that answers are remembered: every sample on fresh contents takes more
// than 1.25 times the upper quartile of the others (1.5 times with fewer than four) and some
// microseconds more, and the baseline's do not.
std::string remembered_answers(const FreshSamples& candidate, const FreshSamples& baseline);

}  // namespace fk
