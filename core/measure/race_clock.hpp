// SPDX-License-Identifier: Apache-2.0
// Which of several contenders is faster, by how much, and how sure that is. Where the seconds come
// from is their own business (sampler.hpp); here is the order in which they are asked, when that
// stops, and what follows.
//
// Contenders take turns forwards and then backwards (A B C C B A), which cancels a drift of clocks
// or temperature to first order. One such block gives one ratio per pair. Ratios of blocks are
// averaged without the largest and smallest tenth, and the interval is Yuen's (Student's t on the
// winsorised variance), at 99 %.
//
// A contender may wait for a core that other processes use. The ratio of the times without waits
// then has an interval too, and the result covers both intervals. They differ where the scheduler
// favours one side. A candidate that waits for threads of its own gains nothing.
//
// Noise decides when to stop: when the interval of every pair is narrower than a quarter of the
// band, or a tenth of the difference itself where that is larger. It is the width that is looked at
// and not the answer, so looking often does not make a false `faster` more likely. A time budget
// caps it.
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
  // Seconds of one call. Nothing when the sample is to be dropped: it was disturbed by something
  // that has nothing to do with the contender, and it knows that without looking at the seconds.
  virtual std::optional<double> sample() = 0;
  // How many seconds of the last sample it may have waited for a core that others had.
  virtual double waited_s() const { return 0; }
  // Its last two samples are not among those of the race: their block is done again.
  virtual void forget() {}
};

struct RaceOptions {
  double seconds = 1;   // of all contenders together, about
  int blocks_min = 10;  // of A B B A; less where a single call takes most of the budget
  // And where all are faster or slower than the first one by far, which more blocks would not
  // change; more where noise leaves that open.
  int blocks_clear = 6;
  int blocks_max = 2000;
  double band = 0.01;  // differences that are smaller are of no interest
  // Blocks with a dropped sample that are done again, beyond the budget by as much as they took.
  int redo_max = 0;
  // Where several processes hold one race, with equal samples: from the seconds that this one has
  // spent, those that count for all of them.
  std::function<double(double)> spent;
};

// 0 <= q <= 1, linear between the two nearest; 0 of nothing.
double quantile(std::vector<double> values, double q);

struct Timing {
  double median_s = 0, low_s = 0, high_s = 0;  // low, high: first and third quartile
  int samples = 0, dropped = 0;
};

enum class Speed {
  faster,  // the interval lies above 1 and not within the band
  same,    // the interval lies within 1 - band and 1 + band
  slower,  // as faster, below 1
  unknown  // the interval holds 1 and more than the band: cannot tell
};
const char* speed_name(Speed speed);                   // "faster", "same", "slower", "cannot tell"
Speed speed_of(double low, double high, double band);  // of an interval

// How often one contender fits into the time of another: above 1 is faster.
struct Ratio {
  double value = 0, low = 0, high = 0;  // low, high: 99 % interval
  int blocks = 0;
  Speed speed = Speed::unknown;
};

// Of log(time of the other / own time) by blocks. With fewer than five blocks the interval is the
// range of what was seen.
Ratio ratio_of(std::span<const double> log_ratios, double band);

class RaceResult {
 public:
  const Timing& timing(size_t contender) const { return timings_[contender]; }
  // Of `contender` over `other`.
  Ratio ratio(size_t contender, size_t other) const;
  int blocks() const { return static_cast<int>(blocks_); }
  bool settled() const { return settled_; }  // false: the budget ended it
  int redone() const { return redone_; }     // blocks, which are not among blocks()

 private:
  friend class Race;
  std::vector<Timing> timings_;
  std::vector<std::vector<std::optional<double>>> samples_;  // two per block, by contender
  std::vector<std::vector<double>> waits_s_;                 // of each of samples_
  size_t blocks_ = 0;
  int redone_ = 0;
  double band_ = 0;
  bool settled_ = false;
};

// The first contender is the one that the noise of the others is measured against.
RaceResult race(std::span<Contender* const> contenders, const RaceOptions& options);

}  // namespace fk
