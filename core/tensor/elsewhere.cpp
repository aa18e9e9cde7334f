// SPDX-License-Identifier: Apache-2.0
//
// Explains wrong elements. Right values may be at wrong positions, because of a wrong index, stride
// or order. Or each row or column may have one wrong factor or term.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "core/tensor/pattern.hpp"

namespace fk {
namespace {

// Limits of elements. Larger answers are not sorted: the time would be spent for every wrong
// answer.
constexpr int64_t kFewest = 12, kMost = int64_t{1} << 20, kSortedMost = int64_t{1} << 14;
constexpr int64_t kShortest = 3;  // shortest line that one number does not explain by chance
constexpr double kNearlyAll = 0.9;

constexpr const char* kElsewhereNext =
    "The values are right at wrong positions. Check index and strides of loads and stores.";
constexpr Advice kShifted = {"shifted", kElsewhereNext},
                 kTransposed = {"transposed", kElsewhereNext}, kHalves = {"halves", kElsewhereNext},
                 kInterleaved = {"interleaved", kElsewhereNext}, kOrder = {"order", kElsewhereNext};

class Places {
 public:
  Places(const TensorView& got, const TensorView& want, double limit)
      : got_(values_of(got)), want_(values_of(want)), limit_(limit) {
    columns_ = want.shape.back();
    rows_ = want.shape.size() < 2 ? 1 : want.shape[want.shape.size() - 2];
  }

  Pattern elsewhere() const {
    for (const int64_t by :
         {int64_t{1}, int64_t{2}, int64_t{4}, int64_t{8}, int64_t{16}, int64_t{32}, columns_})
      for (const int64_t k : {by, -by}) {
        if (!holds([&](int64_t i) { return i + k; })) continue;
        if (by == columns_ && columns_ > 1)
          return {std::string("every row holds the values of the ") +
                      (k > 0 ? "next one" : "one before"),
                  &kShifted};
        return {fmt::format("every element holds what belongs {} {}", by,
                            k > 0 ? "further on" : "before"),
                &kShifted};
      }
    // The layout of a matrix that was written as its transpose.
    if (rows_ > 1 && columns_ > 1 && holds([&](int64_t i) {
          const int64_t matrix = i / (rows_ * columns_) * rows_ * columns_, in = i - matrix;
          return matrix + in % rows_ * columns_ + in / rows_;
        }))
      return {"transposed: rows and columns are exchanged", &kTransposed};
    const int64_t half = columns_ / 2;
    if (columns_ % 2 == 0 && half > 1) {
      const auto in_row = [&](const std::function<int64_t(int64_t)>& from) {
        return holds([&](int64_t i) { return i - i % columns_ + from(i % columns_); });
      };
      if (in_row([&](int64_t c) { return (c + half) % columns_; }))
        return {"the halves of every row are exchanged", &kHalves};
      if (in_row([&](int64_t c) { return c % 2 * half + c / 2; }))
        return {"values that belong half a row apart are neighbours", &kInterleaved};
      if (in_row([&](int64_t c) { return c % half * 2 + c / half; }))
        return {"neighbours are half a row apart", &kInterleaved};
    }
    if (in_any_order()) return {"the right values, in another order", &kOrder};
    return {};
  }

  static std::vector<double> values_of(const TensorView& view) {
    const Tensor all = view.copy().to(DType::f64);
    const auto values = all.as<double>();
    return {values.begin(), values.end()};
  }

  bool near(double got, double want) const { return std::abs(got - want) <= limit_; }

  // True if nearly all elements have the value of the position from(i). Positions outside of the
  // tensor are not counted.
  template <class From>
  bool holds(const From& from) const {
    const auto n = static_cast<int64_t>(got_.size());
    int64_t inside = 0, same = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = from(i);
      if (at < 0 || at >= n) continue;
      ++inside;
      same += near(got_[static_cast<std::size_t>(i)], want_[static_cast<std::size_t>(at)]);
      if (static_cast<double>(inside - same) > (1 - kNearlyAll) * static_cast<double>(n))
        return false;
    }
    return inside * 2 >= n && inside >= kFewest;
  }

  // True if one number for each line (row or column) explains the errors.
  bool by_line(bool rows, bool factor) const {
    const int64_t all = static_cast<int64_t>(got_.size()) / columns_;
    const int64_t lines = rows ? all : columns_, length = rows ? columns_ : all;
    if (lines < 2 || length < kShortest) return false;
    for (int64_t line = 0; line < lines; ++line) {
      const auto at = [&](int64_t i) {
        return static_cast<std::size_t>(rows ? line * columns_ + i : i * columns_ + line);
      };
      double products = 0, squares = 0, errors = 0;
      for (int64_t i = 0; i < length; ++i) {
        products += got_[at(i)] * want_[at(i)];
        squares += want_[at(i)] * want_[at(i)];
        errors += got_[at(i)] - want_[at(i)];
      }
      const double by = factor ? products / squares : errors / static_cast<double>(length);
      const double allowed = factor ? limit_ * std::max(1.0, std::abs(by)) : limit_;
      for (int64_t i = 0; i < length; ++i) {
        const double told = factor ? by * want_[at(i)] : by + want_[at(i)];
        if (!(std::abs(got_[at(i)] - told) <= allowed)) return false;
      }
    }
    return true;
  }

 private:
  bool in_any_order() const {
    if (static_cast<int64_t>(got_.size()) > kSortedMost) return false;
    std::vector<double> got = got_, want = want_;
    std::sort(got.begin(), got.end());
    std::sort(want.begin(), want.end());
    // Values of one distribution are close to each other in any case.
    const double alike = 1e-3 * (want.back() - want.front()) / static_cast<double>(want.size());
    if (!(limit_ < alike)) return false;
    return std::equal(got.begin(), got.end(), want.begin(),
                      [&](double g, double w) { return near(g, w); });
  }

  std::vector<double> got_, want_;
  double limit_;
  int64_t rows_ = 1, columns_ = 1;
};

}  // namespace

Pattern explained(const TensorView& got, const TensorView& want, double limit) {
  const int64_t n = numel(want.shape);
  if (n < kFewest || n > kMost || want.shape.empty()) return {};
  const Places places(got, want, limit);
  if (Pattern where = places.elsewhere(); !where.text.empty()) return where;
  static const Advice
      offset = {"line_offset", kOffsetNext},
      factor = {
          "line_factor",
          "A factor of each line is wrong: a scale, a weight, or a mean's 1/n. Or a sum skips or "
          "repeats a part, or is in a lower precision."};
  if (places.by_line(/*rows=*/false, /*factor=*/false))
    return {"each column has a different constant error", &offset};
  if (places.by_line(/*rows=*/false, /*factor=*/true))
    return {"each column is wrong by a different factor", &factor};
  if (places.by_line(/*rows=*/true, /*factor=*/false))
    return {"each row has a different constant error", &offset};
  if (places.by_line(/*rows=*/true, /*factor=*/true))
    return {"each row is wrong by a different factor", &factor};
  return {};
}

}  // namespace fk
