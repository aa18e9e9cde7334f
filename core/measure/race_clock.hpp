// SPDX-License-Identifier: Apache-2.0
// Compares the times of several contenders, with an interval of confidence. Contenders measure
// their own seconds (sampler.hpp). This file has the order of samples, the rule to stop, and the
// result.
//
// Contenders take turns forwards and then backwards (A B C C B A), which cancels a drift of clocks
// or temperature to first order. One such block gives one ratio per pair. Ratios of blocks are
// averaged without the largest and smallest tenth. The interval is Yuen's (Student's t on the
// winsorised variance), at 99 %.
//
// A contender may wait for a core that other processes use. The ratio of the times without waits
// then has an interval too, and the result covers both intervals. They differ where the scheduler
// favours one side. A candidate that waits for threads of its own gains nothing.
//
// The race stops when the interval of every pair is narrow enough. The limit is a quarter of the
// band, or a tenth of the difference if this is larger. Only the width is tested and not the
// answer, so frequent tests do not make a false `faster` more likely. A time budget caps the race.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace fk {

class Contender {
 public:
  virtual ~Contender() = default;
  // Seconds of one call. Nothing when the sample must be dropped: something outside of the
  // contender disturbed it, which the contender knows without the seconds.
  virtual std::optional<double> sample() = 0;
  // Seconds of the last sample in which it may have waited for a core in use by others.
  virtual double waited_s() const { return 0; }
  // Drops its last two samples from its own records. The race repeats their block.
  virtual void forget() {}
};

struct RaceOptions {
  double seconds = 1;   // for all contenders together, about
  int blocks_min = 10;  // of A B B A; fewer when one call takes most of the budget
  // Fewest blocks when all contenders are far faster or slower than the first. More blocks would
  // change nothing then, unless noise leaves the answer open.
  int blocks_clear = 6;
  int blocks_max = 2000;
  double band = 0.01;  // smaller differences do not matter
  // Most blocks to repeat because of a dropped sample. Their time extends the budget.
  int redo_max = 0;
  // For a race that several processes hold with equal samples: maps this process's spent seconds to
  // the seconds that count for all.
  std::function<double(double)> spent;
};

// Quantile for 0 <= q <= 1, linear between the two nearest values; 0 without values.
double quantile(std::vector<double> values, double q);

struct Timing {
  double median_s = 0, low_s = 0, high_s = 0;  // low, high: first and third quartile
  int samples = 0, dropped = 0;
};

enum class Speed {
  faster,  // the interval is above 1 and not inside of the band
  same,    // the interval is within 1 - band and 1 + band
  slower,  // as faster, below 1
  unknown  // the interval contains 1 and exceeds the band: cannot tell
};
const char* speed_name(Speed speed);                   // "faster", "same", "slower", "cannot tell"
Speed speed_of(double low, double high, double band);  // from an interval

// The other's time over a contender's time: above 1 is faster.
struct Ratio {
  double value = 0, low = 0, high = 0;  // low, high: 99 % interval
  int blocks = 0;
  Speed speed = Speed::unknown;
};

// Ratio from log(other's time / own time) of each block. With fewer than five blocks, the interval
// is the range of the values.
Ratio ratio_of(std::span<const double> log_ratios, double band);

class RaceResult {
 public:
  const Timing& timing(size_t contender) const { return timings_[contender]; }
  // Time of `other` over time of `contender`.
  Ratio ratio(size_t contender, size_t other) const;
  int blocks() const { return static_cast<int>(blocks_); }
  bool settled() const { return settled_; }  // false: the budget ended the race
  int redone() const { return redone_; }     // repeated blocks, not counted in blocks()

 private:
  friend class Race;
  std::vector<Timing> timings_;
  std::vector<std::vector<std::optional<double>>> samples_;  // by contender, two per block
  std::vector<std::vector<double>> waits_s_;  // by contender, one for each of samples_
  size_t blocks_ = 0;
  int redone_ = 0;
  double band_ = 0;
  bool settled_ = false;
};

// The noise of the other contenders is measured against the first one.
RaceResult race(std::span<Contender* const> contenders, const RaceOptions& options);

}  // namespace fk
