// SPDX-License-Identifier: Apache-2.0
#include "core/cases/numerics/judgement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "core/base/parts.hpp"
#include "core/tensor/compare.hpp"

namespace fk {

namespace {

// Advice if no single element is wrong.
constexpr const char* kFactor =
    "Every value is off by the same factor: a constant of too few digits, an epsilon in the wrong "
    "place, or n - 1 for n.";
constexpr const char* kLowerPrecision =
    "Keep sums and intermediates in float32 and round once, when the output is stored; check "
    "approximate functions (fast math).";

Judgement judge_exact(const Tensor& got, const Tensor& want) {
  Judgement out;
  const Tensor right = want.to(got.dtype);
  if (same_bytes(got, right)) return out;
  const Difference d = compare(got, right, 0);
  out.ok = d.identical();
  if (out.ok) return out;
  out.worst = HUGE_VAL;
  out.wrong = {"exact", 0, got.numel(), -1, 0, 0, d.pattern, d.next, d.name};
  out.wrong_elements.assign(static_cast<size_t>(got.numel()), 0);
  for (int64_t i = 0; i < got.numel(); ++i) {
    const double g = got.at(i), w = right.at(i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    out.wrong_elements[static_cast<size_t>(i)] = 1;
    if (!out.wrong.count++) out.wrong.first = i, out.wrong.got = g, out.wrong.want = w;
  }
  out.text = fmt::format("{}; {} must be exact: {} is {:.9g} instead of {:.9g}", d.pattern,
                         name(got.dtype), position_text(got.shape, d.worst_index), d.got, d.want);
  return out;
}

struct Size {
  double spread = 0, rms = 0;
};

// Parallel lanes, so that the sums do not depend on each other.
Size size_of(const double* want, int64_t count) {
  constexpr int64_t kLanes = 8;
  std::array<double, kLanes> sum{}, all{}, finite{}, squares{};
  const auto each = [&](const auto& add) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
      for (int64_t lane = 0; lane < kLanes; ++lane) add(static_cast<size_t>(lane), want[i + lane]);
    for (; i < count; ++i) add(static_cast<size_t>(i % kLanes), want[i]);
  };
  each([&](size_t lane, double w) {
    const bool counts = std::isfinite(w);
    const double value = counts ? w : 0;
    finite[lane] += counts, sum[lane] += value, all[lane] += value * value;
  });
  const auto total = [](const auto& lanes) {
    return std::accumulate(lanes.begin(), lanes.end(), 0.0);
  };
  const double n = total(finite), mean = total(sum) / std::max(1.0, n);
  if (n == 0) return {};
  each([&](size_t lane, double w) {
    const double by = std::isfinite(w) ? w - mean : 0;
    squares[lane] += by * by;
  });
  return {std::sqrt(total(squares) / n), std::sqrt(total(all) / n)};
}

// Accumulates the numbers of a judgement, block by block.
class Tally {
 public:
  // `least`: the smallest size of a block. `marks`: gets 1 at each wrong element; may be null.
  Tally(const ErrorModel& model, double least, uint8_t* marks)
      : m_(model), least_(least), marks_(marks) {}

  // `moves`: movement of each element; null: the block's noise counts.
  void block(const double* got, const double* want, const double* before, const double* moves,
             int64_t first, int64_t count, double noise, double floor) {
    if (m_.fine) look_for_coarse(got, want, count);
    const Size size = size_of(want, count);
    floor_ = m_.floor + floor + m_.cancelled * least_ / m_.small;
    // An error by cancellation says nothing about a factor.
    ordinary_ = std::max(m_.ordinary, m_.factor > 0 ? floor / m_.factor : 0);
    blocks_ += 1;
    // Other terms cover an answer that moves as much as its inputs. If it moves far more, all of a
    // block may move together.
    together_ = std::max(0.0, noise - (8 * m_.probe + 4 * m_.coarse) * size.rms);
    // Independent movements add up in squares.
    const auto beyond = [this](double move, double of, double usual) {
      usual *= m_.probe * of;
      return std::sqrt(std::max(0.0, move * move - usual * usual));
    };
    const double excess = beyond(noise, size.rms, m_.usual);
    const double in_mean = beyond(noise, size.rms, std::max(m_.usual, m_.usual_rms));
    for (int64_t i = 0; i < count; ++i) {
      const double g = got[i], w = want[i];
      const double own = moves && std::isfinite(w) ? beyond(moves[i], std::abs(w), m_.usual) : 0;
      noise = std::max(excess, own);
      if (std::isfinite(g) && std::isfinite(w)) {
        const double inverse = 1 / allowed(w, size, 16 * noise);
        const double share = g == w ? 0 : std::abs(g - w) * inverse;
        if (!before || w != before[i] || g != w)
          count_in(g - w, w, size, noise > 0, std::max(in_mean, own), inverse);
        found(share, first + i);
      } else if (std::isinf(g) && std::signbit(g) == std::signbit(w) &&
                 overflows(w, size, 16 * noise)) {
        found(0, first + i);
      } else {
        found((std::isnan(g) && std::isnan(w)) || g == w ? 0 : HUGE_VAL, first + i);
      }
    }
  }

  // Adds a tally of later blocks.
  void add(const Tally& later) {
    elements_ += later.elements_, squares_ += later.squares_, products_ += later.products_;
    weight_ += later.weight_, moved_ += later.moved_, blocks_ += later.blocks_;
    for (const auto& [w, coarse] : later.fine_) count_fine(w, coarse);
    largest_ = std::max(largest_, later.largest_);
    for (const double w : later.distinct_)
      if (distinct_.size() < kDistinct) distinct_.insert(w);
    if (!wrong) first_wrong = later.first_wrong;
    wrong += later.wrong;
    if (later.worst_at >= 0 && (worst_at < 0 || later.worst > worst))
      worst = later.worst, worst_at = later.worst_at;
  }

  double rms() const { return elements_ ? std::sqrt(squares_ / elements_) : 0; }
  // Few elements give an imprecise factor.
  double factor() const { return weight_ > 0 ? 1 + products_ / weight_ : 1; }
  double factor_limit() const {
    const double many = std::min(weight_ / std::max(largest_, 1e-300),
                                 distinct_.size() < kDistinct ? double(distinct_.size()) : 1e300);
    const double moved = weight_ > 0 ? moved_ / weight_ / std::sqrt(blocks_) : 0;
    const double own =
        m_.factor + moved + (3 * m_.factor + m_.coarse) / std::sqrt(std::max(1.0, many));
    return std::max(own, std::min(own + m_.shared / std::sqrt(std::max(1.0, blocks_)), kTold));
  }
  // Equal rows have equal errors, so they count as one.
  double rms_limit() const {
    const bool few = !distinct_.empty() && distinct_.size() < kDistinct;
    const double many = few ? std::min(elements_, double(distinct_.size())) : elements_;
    return std::min(1.0, m_.rms * (1 + m_.few / std::sqrt(std::max(1.0, many))));
  }

  // True if a float32 output was rounded to 16 bits first: by chance one value in 8192 looks like
  // this.
  bool rounded_first() const {
    const auto coarse =
        std::count_if(fine_.begin(), fine_.end(), [](const auto& v) { return v.second; });
    return fine_.size() >= 64 && coarse > 8 + static_cast<int64_t>(fine_.size()) / 64;
  }

  int64_t wrong = 0, first_wrong = -1, worst_at = -1;
  double worst = 0;

 private:
  // True for at most ten bits of mantissa, as in float16.
  static bool is_coarse(double v) {
    return std::bit_cast<uint32_t>(static_cast<float>(v)) % 0x2000 == 0;
  }
  // Equal values count once, because they are rounded equally. Wanted values that fit into 16 bits
  // are skipped.
  void look_for_coarse(const double* got, const double* want, int64_t count) {
    for (int64_t i = 0; i < count && fine_.size() < kDistinct; ++i)
      if (std::isfinite(got[i]) && got[i] != 0 && std::isfinite(want[i]) && !is_coarse(want[i]))
        count_fine(want[i], is_coarse(got[i]));
  }
  void count_fine(double want, bool coarse) {
    if (fine_.size() < kDistinct) fine_.emplace(want, coarse);
  }
  void found(double share, int64_t at) {
    if (share > 1 && !wrong++) first_wrong = at;
    if (share > 1 && marks_) marks_[at] = 1;
    if (share > worst || worst_at < 0) worst = share, worst_at = at;
  }
  // True if the output's dtype cannot hold the value, apart from the allowed error.
  bool overflows(double w, const Size& size, double excess) const {
    return std::isfinite(w) && std::abs(w) + allowed(w, size, excess) > m_.most;
  }
  double allowed(double w, const Size& size, double excess) const {
    const double a = std::abs(w);
    return std::min(m_.of_value * a + m_.of_spread * size.spread + excess,
                    m_.hard * std::max({a, size.rms, size.spread, least_})) +
           floor_;
  }
  // `inverse` of the allowed error; for a `noisy` element the root mean square uses another limit.
  void count_in(double error, double w, const Size& size, bool noisy, double noise,
                double inverse) {
    const double share =
        !noisy || error == 0 ? error * inverse : error / allowed(w, size, m_.excess_rms * noise);
    elements_ += 1;
    squares_ += share * share;
    if (std::abs(w) < ordinary_) return;
    if (distinct_.size() < kDistinct) distinct_.insert(w);
    // An element's weight is its size in units of its allowed error, squared.
    const double unit = w * inverse, tells = unit * unit;
    if (together_ > 0) moved_ += tells * std::min(1.0, together_ / std::abs(w));
    products_ += error * inverse * unit;
    weight_ += tells;
    largest_ = std::max(largest_, tells);
  }

  // Upper limit of a shared factor error: 1.01 times the answer must still fail.
  static constexpr double kTold = 0.008;
  // Equal values are rounded equally, so they count once.
  static constexpr size_t kDistinct = 1024;
  const ErrorModel& m_;
  const double least_;
  uint8_t* const marks_;
  std::unordered_set<double> distinct_;
  std::unordered_map<double, bool> fine_;  // wanted value; true: the answer fits into 16 bits
  double elements_ = 0, squares_ = 0, products_ = 0, weight_ = 0, largest_ = 0, moved_ = 0,
         blocks_ = 0, together_ = 0, floor_ = 0, ordinary_ = 0;
};

void read(const Tensor& from, int64_t begin, int64_t count, std::vector<double>& to) {
  to.resize(static_cast<size_t>(count));
  const auto* at = static_cast<const std::byte*>(from.data()) + begin * bytes(from.dtype);
  convert(at, from.dtype, to.data(), DType::f64, count);
}

// Several threads compute parts of a large output. The parts do not depend on the number of
// threads, so the sum does not either.
Tally tally_of(const Tensor& got, const Tensor& want, const ErrorModel& m,
               const std::vector<double>& noise, const Tensor& before,
               const std::vector<double>& floors, const std::vector<double>& moves,
               uint8_t* marks = nullptr) {
  constexpr int64_t kPart = 8192;  // blocks
  const Blocks blocks = blocks_of(want.shape, m.plane);
  const double least = m.small * size_of_all(want);
  std::vector<Tally> parts(static_cast<size_t>((blocks.count + kPart - 1) / kPart),
                           Tally(m, least, marks));
  const auto look = [&](size_t part) {
    std::vector<double> g, w, kept;
    const auto first = static_cast<size_t>(kPart) * part;
    for (size_t b = first; b < std::min<size_t>(first + kPart, static_cast<size_t>(blocks.count));
         ++b) {
      const int64_t begin = blocks.begin[b], count = blocks.begin[b + 1] - begin;
      read(got, begin, count, g);
      read(want, begin, count, w);
      if (before.numel()) read(before, begin, count, kept);
      parts[part].block(g.data(), w.data(), before.numel() ? kept.data() : nullptr,
                        moves.empty() ? nullptr : moves.data() + begin, begin, count,
                        noise.empty() ? 0 : noise[b], floors.empty() ? 0 : floors[b]);
    }
  };
  in_parts(parts.size(), look);
  Tally out(m, least, marks);
  for (const Tally& part : parts) out.add(part);
  return out;
}

}  // namespace

std::string factor_sentence(double factor) {
  const int digits = std::abs(factor - 1) < 1e-4 ? 7 : 5;
  const std::string told = fmt::format("{:.{}g}", factor, digits);
  return fmt::format("every element is {} times {}", told,
                     factor > 1 ? "too large" : "the right value");
}

Blocks blocks_of(const Shape& shape, int64_t plane) {
  constexpr int64_t kLeast = 16, kMost = 128;
  const int64_t count = numel(shape),
                width = shape.empty() ? 1 : std::max<int64_t>(1, shape.back());
  Blocks out;
  out.begin.push_back(0);
  if (plane > 0) {
    for (int64_t at = plane; at < count; at += plane) out.begin.push_back(at);
  } else if (width < 2 * kLeast) {
    // Several whole rows per block; a small rest joins the last block.
    const int64_t step = (kLeast + width - 1) / width * width;
    for (int64_t at = step; at + kLeast <= count; at += step) out.begin.push_back(at);
  } else {
    const int64_t pieces = (width + kMost - 1) / kMost;
    for (int64_t row = 0; row < count; row += width)
      for (int64_t p = 0; p < pieces; ++p)
        if (row + p) out.begin.push_back(row + p * width / pieces);
  }
  if (count) out.begin.push_back(count);
  out.count = static_cast<int64_t>(out.begin.size()) - 1;
  return out;
}

double size_of_all(const Tensor& want) {
  constexpr int64_t kPart = int64_t{1} << 15;
  struct Part {
    double squares = 0;
    int64_t finite = 0;
  };
  std::vector<Part> parts(static_cast<size_t>((want.numel() + kPart - 1) / kPart));
  in_parts(parts.size(), [&](size_t p) {
    const int64_t begin = static_cast<int64_t>(p) * kPart;
    std::vector<double> values;
    read(want, begin, std::min(kPart, want.numel() - begin), values);
    for (const double w : values) {
      if (!std::isfinite(w)) continue;
      parts[p].squares += w * w;
      ++parts[p].finite;
    }
  });
  Part all;
  for (const Part& part : parts) all.squares += part.squares, all.finite += part.finite;
  return all.finite ? std::sqrt(all.squares / static_cast<double>(all.finite)) : 0;
}

Judgement judge(const Tensor& got, const Tensor& want, const ErrorModel& m,
                const std::vector<double>& noise, const Tensor& before,
                const std::vector<double>& floors, const std::vector<double>& moves, bool words) {
  if (m.exact) return judge_exact(got, want);
  Judgement out;
  if (got.numel() == 0) return out;
  const Tally tally = tally_of(got, want, m, noise, before, floors, moves);
  out.worst = tally.worst, out.rms = tally.rms(), out.factor = tally.factor();
  const bool by_factor = m.factor > 0 && std::abs(out.factor - 1) > tally.factor_limit();
  const std::string scale = "what rounding explains (" + m.text + ")";
  if (tally.wrong) {
    const int64_t at = tally.worst_at;
    out.text = fmt::format(
        "{} of {} elements are off, the worst {} is {:.9g} instead of {:.9g}, {:.3g} times {}",
        tally.wrong, got.numel(), position_text(got.shape, at), got.at(at), want.at(at), out.worst,
        scale);
  } else if (by_factor) {
    out.text = fmt::format("{}, which rounding does not explain beyond {:.2g}",
                           factor_sentence(out.factor), tally.factor_limit());
  } else if (out.rms > tally.rms_limit()) {
    out.text = fmt::format(
        "the errors are {:.3g} (root mean square) of {}, at most {:.3g}: as of a "
        "lower precision",
        out.rms, scale, tally.rms_limit());
  } else if (tally.rounded_first()) {
    out.text = "float32 values look rounded to 16 bits: a lower precision";
  }
  out.ok = out.text.empty();
  if (out.ok) return out;
  out.wrong = {m.text, tally.wrong, got.numel(), tally.first_wrong, 0, 0, "", ""};
  if (!words) return out;
  if (tally.wrong) {
    out.wrong.got = got.at(tally.first_wrong);
    out.wrong.want = want.at(tally.first_wrong);
    out.wrong_elements.assign(static_cast<size_t>(got.numel()), 0);
    (void)tally_of(got, want, m, noise, before, floors, moves, out.wrong_elements.data());
    const Difference d = compare(got, want, m.of_value + m.of_spread, out.wrong_elements);
    out.wrong.pattern = d.pattern, out.wrong.next = d.next, out.wrong.name = d.name;
    out.text = d.pattern + "; " + out.text;
  } else {
    out.wrong.pattern = out.text;
    out.wrong.next = by_factor ? kFactor : kLowerPrecision;
    out.wrong.name = by_factor                     ? "factor"
                     : out.rms > tally.rms_limit() ? "lower_precision"
                                                   : "rounded_output";
    if (by_factor) out.wrong.figures = {{"factor", out.factor}};
  }
  return out;
}

}  // namespace fk
