// SPDX-License-Identifier: Apache-2.0
#include "core/measure/race_clock.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/clock.hpp"

namespace fk {

namespace {

constexpr double kTrim = 0.1;             // share of blocks at each end
constexpr double kNormal = 2.5758293035;  // both tails of the normal distribution hold 1 %
constexpr size_t kFewBlocks = 5;
constexpr double kClear = 1.2;  // a clear difference
// Share of a sample. A shorter wait is the normal delay of waking up.
constexpr double kShortWait = 0.05;
constexpr double kAlone = 2;     // a single block may be wrong by this factor
constexpr double kLostMost = 4;  // most budgets for a race with repeated blocks

// Student's t at 99 %, by a series in 1/v around the normal quantile; good from v = 4.
double student(double v) {
  const double z = kNormal, z2 = z * z;
  return z * (1 + (z2 + 1) / (4 * v) + (5 * z2 * z2 + 16 * z2 + 3) / (96 * v * v) +
              (3 * z2 * z2 * z2 + 19 * z2 * z2 + 17 * z2 - 15) / (384 * v * v * v));
}

struct Mean {
  double value = 0, half = 0;  // half: half of the interval's width
};

// Trimmed mean with Yuen's interval, of at least kFewBlocks values.
Mean trimmed_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const auto cut = static_cast<size_t>(kTrim * static_cast<double>(n));
  const size_t kept = n - 2 * cut;
  double sum = 0;
  for (size_t i = cut; i < n - cut; ++i) sum += values[i];
  Mean out;
  out.value = sum / static_cast<double>(kept);
  double winsorised = 0, squares = 0;
  const auto at = [&](size_t i) { return values[std::clamp(i, cut, n - cut - 1)]; };
  for (size_t i = 0; i < n; ++i) winsorised += at(i);
  winsorised /= static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) squares += (at(i) - winsorised) * (at(i) - winsorised);
  const auto count = static_cast<double>(n), part = static_cast<double>(kept);
  out.half = student(part - 1) * std::sqrt(squares / (count - 1)) * std::sqrt(count) / part;
  return out;
}

Timing timing_of(const std::vector<std::optional<double>>& samples, bool all) {
  Timing out;
  std::vector<double> good;
  for (const auto& s : samples) {
    if (s) good.push_back(*s);
    out.dropped += !s && all;
  }
  out.samples = static_cast<int>(good.size());
  out.median_s = quantile(good, 0.5);
  out.low_s = quantile(good, 0.25);
  out.high_s = quantile(good, 0.75);
  return out;
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (at - static_cast<double>(low));
}

const char* speed_name(Speed speed) {
  static constexpr const char* kNames[] = {"faster", "same", "slower", "cannot tell"};
  return kNames[static_cast<int>(speed)];
}

Speed speed_of(double low, double high, double band) {
  if (low >= 1 - band && high <= 1 + band) return Speed::same;
  if (low > 1) return Speed::faster;
  if (high < 1) return Speed::slower;
  return Speed::unknown;
}

Ratio ratio_of(std::span<const double> log_ratios, double band) {
  Ratio out;
  out.blocks = static_cast<int>(log_ratios.size());
  if (log_ratios.empty()) return out;
  Mean mean;
  if (log_ratios.size() >= kFewBlocks) {
    mean = trimmed_mean({log_ratios.begin(), log_ratios.end()});
    out.low = std::exp(mean.value - mean.half);
    out.high = std::exp(mean.value + mean.half);
  } else {
    mean.value = quantile({log_ratios.begin(), log_ratios.end()}, 0.5);
    out.low = std::exp(*std::min_element(log_ratios.begin(), log_ratios.end()));
    out.high = std::exp(*std::max_element(log_ratios.begin(), log_ratios.end()));
  }
  out.value = std::exp(mean.value);
  // A single block has no width. Its noise is unknown, but assumed below a factor of two.
  const bool single = log_ratios.size() < 2, slow = out.value * kAlone < 1;
  if (single) out.low = out.value / kAlone, out.high = out.value * kAlone;
  out.speed = single && !slow ? Speed::unknown : speed_of(out.low, out.high, band);
  return out;
}

// Records the samples while the contenders take turns.
class Race {
 public:
  Race(std::span<Contender* const> contenders, const RaceOptions& options)
      : contenders_(contenders), options_(options) {
    result_.band_ = options.band;
    result_.samples_.resize(contenders.size());
    result_.waits_s_.resize(contenders.size());
    resting_.resize(contenders.size(), false);
  }

  RaceResult run() {
    for (Contender* c : contenders_) c->sample();  // loads code and lazy state
    const double start = now_seconds();
    int look = least_clear();
    while (result_.blocks() < options_.blocks_max) {
      const double begun = now_seconds();
      block();
      const bool redoes =
          result_.redone_ < options_.redo_max && lost_s_ < kLostMost * options_.seconds;
      if (redoes && forget_if_disturbed()) {
        lost_s_ += now_seconds() - begun;
        continue;
      }
      const double own = now_seconds() - start - lost_s_,
                   spent = options_.spent ? options_.spent(own) : own;
      if (result_.blocks() < look && spent < options_.seconds) continue;
      look = std::max(options_.blocks_min, result_.blocks() + std::max(1, result_.blocks() / 8));
      result_.settled_ = settled();
      if (result_.settled_ || enough(spent)) break;
      rest();
    }
    for (size_t c = 0; c < contenders_.size(); ++c) {
      auto& samples = result_.samples_[c];
      const size_t asked = 2 * asked_[c];
      result_.timings_.push_back(
          timing_of({samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(asked)}, true));
      result_.timings_.back().dropped += forgotten_.empty() ? 0 : forgotten_[c];
    }
    return std::move(result_);
  }

 private:
  int least_clear() const { return std::min(options_.blocks_clear, options_.blocks_min); }

  void block() {
    const size_t n = contenders_.size();
    asked_.resize(n, 0);
    for (size_t turn = 0; turn < 2 * n; ++turn) {
      const size_t c = turn < n ? turn : 2 * n - 1 - turn;
      result_.samples_[c].push_back(resting_[c] ? std::nullopt : contenders_[c]->sample());
      result_.waits_s_[c].push_back(resting_[c] ? 0 : contenders_[c]->waited_s());
    }
    ++result_.blocks_;
    for (size_t c = 0; c < n; ++c)
      if (!resting_[c]) asked_[c] = result_.blocks_;
  }

  // Removes the last block if one of its samples was dropped.
  bool forget_if_disturbed() {
    const size_t n = contenders_.size();
    forgotten_.resize(n, 0);
    bool whole = true;
    for (size_t c = 0; c < n; ++c) {
      auto& samples = result_.samples_[c];
      if (resting_[c]) continue;
      for (size_t i = samples.size() - 2; i < samples.size(); ++i) whole &= samples[i].has_value();
    }
    if (whole) return false;
    for (size_t c = 0; c < n; ++c) {
      auto& samples = result_.samples_[c];
      for (int i = 0; i < 2; ++i) {
        forgotten_[c] += !resting_[c] && !samples.back();
        samples.pop_back();
        result_.waits_s_[c].pop_back();
      }
      if (resting_[c]) continue;
      --asked_[c];
      contenders_[c]->forget();
    }
    --result_.blocks_;
    ++result_.redone_;
    return true;
  }

  // True when the budget is over. Slow contenders get a few blocks more.
  bool enough(double spent) const {
    if (spent < options_.seconds) return false;
    return result_.blocks() >= options_.blocks_min || spent > 3 * options_.seconds ||
           std::all_of(resting_.begin(), resting_.end(), [](bool r) { return r; });
  }

  // Stops asking a contender whose call takes a large part of the budget.
  void rest() {
    for (size_t c = 0; c < contenders_.size(); ++c) {
      const Timing t = timing_of(result_.samples_[c], false);
      resting_[c] = t.samples >= 4 && t.median_s * t.samples > options_.seconds;
    }
  }

  bool settled() const {
    const size_t n = contenders_.size();
    for (size_t c = n > 1 ? 1 : 0; c < n; ++c) {
      if (resting_[c]) continue;
      const Ratio r = n > 1 ? result_.ratio(c, 0) : alone();
      const bool clear = std::abs(std::log(r.value)) > std::log(kClear);
      if (r.blocks < (clear ? least_clear() : options_.blocks_min)) return false;
      const double half = std::log(r.high / r.low) / 2;
      if (half > std::max(options_.band / 3, std::abs(std::log(r.value)) / 10)) return false;
    }
    return true;
  }

  // A single contender compared with its own median.
  Ratio alone() const {
    const double median = timing_of(result_.samples_[0], false).median_s;
    std::vector<double> logs;
    for (const auto& s : result_.samples_[0])
      if (s && *s > 0 && median > 0) logs.push_back(std::log(*s / median));
    Ratio r = ratio_of(logs, options_.band);
    r.blocks /= 2;
    r.value = 1;
    return r;
  }

  std::span<Contender* const> contenders_;
  RaceOptions options_;
  RaceResult result_;
  std::vector<bool> resting_;
  std::vector<size_t> asked_;   // blocks in which a contender took part
  std::vector<int> forgotten_;  // by contender: dropped samples in repeated blocks
  double lost_s_ = 0;           // seconds of repeated blocks
};

Ratio RaceResult::ratio(size_t contender, size_t other) const {
  std::vector<double> logs, without;  // by block: as timed, and without waits
  const auto without_wait = [&](size_t who, size_t i) {
    const double all = *samples_[who][i], wait = waits_s_[who][i];
    return wait < kShortWait * all ? all : std::max(all - wait, kShortWait * all);
  };
  for (size_t b = 0; b < blocks_; ++b) {
    double sum = 0, sum_without = 0;
    bool whole = true;
    for (size_t i = 2 * b; i < 2 * b + 2; ++i) {
      const auto &mine = samples_[contender][i], &theirs = samples_[other][i];
      whole &= mine && theirs && *mine > 0 && *theirs > 0;
      if (!whole) break;
      sum += std::log(*theirs / *mine);
      sum_without += std::log(without_wait(other, i) / without_wait(contender, i));
    }
    if (!whole) continue;
    logs.push_back(sum / 2);
    without.push_back(sum_without / 2);
  }
  Ratio out = ratio_of(logs, band_);
  if (logs.size() < 2 || without == logs) return out;
  const Ratio net = ratio_of(without, band_);
  out.low = std::min(out.low, net.low);
  out.high = std::max(out.high, net.high);
  out.speed = speed_of(out.low, out.high, band_);
  return out;
}

RaceResult race(std::span<Contender* const> contenders, const RaceOptions& options) {
  return Race(contenders, options).run();
}

}  // namespace fk
