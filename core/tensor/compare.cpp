// SPDX-License-Identifier: Apache-2.0
//
// Measures the differences of two tensors; pattern.cpp puts the wrong elements into words.

#include "core/tensor/compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/base/error.hpp"
#include "core/tensor/pattern.hpp"

namespace fk {
namespace {

constexpr int64_t kBlock = 4096;                  // elements that are read at a time
constexpr int64_t kSampleMax = int64_t{1} << 22;  // elements in the sample for the 99th percentile

// Delivers a view as doubles, block by block. Strided views are packed once.
class Reader {
 public:
  explicit Reader(const TensorView& view) : view_(view), block_(kBlock) {
    if (view.contiguous()) return;
    packed_ = view.copy();
    view_ = packed_;
  }
  const double* read(int64_t begin, int64_t count) {
    const auto* start = static_cast<const std::byte*>(view_.data) + begin * bytes(view_.dtype);
    convert(start, view_.dtype, block_.data(), DType::f64, count);
    return block_.data();
  }

 private:
  Tensor packed_;
  TensorView view_;
  std::vector<double> block_;
};

// Standard deviation of the finite values around the first of them, which keeps the sums small.
double spread_of(Reader& want, int64_t numel) {
  double shift = std::numeric_limits<double>::quiet_NaN();
  double sum = 0, squares = 0, largest = 0;
  int64_t count = 0;
  for (int64_t begin = 0; begin < numel; begin += kBlock) {
    const int64_t size = std::min(kBlock, numel - begin);
    const double* values = want.read(begin, size);
    for (int64_t i = 0; i < size; ++i) {
      if (!std::isfinite(values[i])) continue;
      if (count == 0) shift = values[i];
      ++count;
      sum += values[i] - shift;
      squares += (values[i] - shift) * (values[i] - shift);
      largest = std::max(largest, std::abs(values[i]));
    }
  }
  if (count == 0) return 1;
  const double mean = sum / static_cast<double>(count);
  const double variance = squares / static_cast<double>(count) - mean * mean;
  // A variance within the rounding of the sums counts as zero.
  if (std::isfinite(variance) && variance > 1e-30 * largest * largest) return std::sqrt(variance);
  return largest > 0 ? largest : 1;
}

// |got - want| where equal values, infinities and pairs of NaN are no error; NaN for a wrong NaN.
double error_of(double got, double want) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
  return std::abs(got - want);
}

double percentile99(std::vector<float>& errors) {
  if (errors.empty()) return 0;
  const std::size_t place = (errors.size() - 1) * 99 / 100;
  const auto nth = errors.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(errors.begin(), nth, errors.end());
  return static_cast<double>(*nth);
}

void measure(Reader& got, Reader& want, std::span<const uint8_t> wrong_elements, Difference& result,
             PatternFinder& finder) {
  const int64_t stride = (result.numel + kSampleMax - 1) / kSampleMax;
  std::vector<float> sample;
  sample.reserve(static_cast<std::size_t>(std::min(result.numel, kSampleMax)));
  double squares = 0, worst = 0;
  int64_t finite = 0;
  for (int64_t begin = 0; begin < result.numel; begin += kBlock) {
    const int64_t size = std::min(kBlock, result.numel - begin);
    const double* g = got.read(begin, size);
    const double* w = want.read(begin, size);
    for (int64_t i = 0; i < size; ++i) {
      const double error = error_of(g[i], w[i]);
      const bool nan = std::isnan(error);
      const double scaled = nan ? std::numeric_limits<double>::infinity() : error / result.spread;
      const bool wrong = wrong_elements.empty() ? scaled > result.limit_of_spread
                                                : wrong_elements[static_cast<size_t>(begin + i)];
      result.nan_count += nan ? 1 : 0;
      result.mismatched += wrong ? 1 : 0;
      if (!nan) result.max_abs = std::max(result.max_abs, error);
      if (std::isfinite(error)) {
        squares += scaled * scaled;
        ++finite;
      }
      if ((begin + i) % stride == 0) sample.push_back(static_cast<float>(scaled));
      // The first of equals; NaN before infinity before numbers.
      if (scaled > worst || (result.worst_index < 0 && wrong)) {
        worst = scaled;
        result.worst_index = begin + i;
        result.got = g[i];
        result.want = w[i];
      }
      finder.add(begin + i, g[i], w[i], wrong);
    }
  }
  result.max_error_of_spread = worst;
  result.rms_of_spread = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
  result.worst1_of_spread = percentile99(sample);
}

// True if all NaN have every bit set, like memory before a call; arithmetic makes no such NaN.
bool nan_is_untouched(const TensorView& got) {
  const Tensor all = got.copy();
  const auto size = static_cast<std::size_t>(bytes(all.dtype));
  const auto* at = static_cast<const unsigned char*>(all.data());
  for (int64_t i = 0; i < all.numel(); ++i, at += size) {
    const bool ones = std::all_of(at, at + size, [](unsigned char b) { return b == 0xFF; });
    if (!ones && std::isnan(all.at(i))) return false;
  }
  return is_float(all.dtype);
}

}  // namespace

double noise_limit_of_spread(DType got, DType want) {
  if (!is_float(got) || !is_float(want)) return 0;
  return std::max(1e-5, 16 * std::max(epsilon(got), epsilon(want)));
}

Difference compare(const TensorView& got, const TensorView& want, double limit_of_spread,
                   std::span<const uint8_t> wrong) {
  if (got.shape != want.shape) {
    fail("compare",
         "shapes differ: got " + shape_text(got.shape) + ", want " + shape_text(want.shape));
  }
  Difference result;
  result.numel = numel(want.shape);
  result.limit_of_spread =
      limit_of_spread < 0 ? noise_limit_of_spread(got.dtype, want.dtype) : limit_of_spread;
  result.pattern = "identical";
  result.spread = 1;
  if (result.numel == 0) return result;
  Reader got_reader(got), want_reader(want);
  result.spread = spread_of(want_reader, result.numel);
  PatternFinder finder(want.shape, result.numel, result.limit_of_spread * result.spread);
  measure(got_reader, want_reader, wrong, result, finder);
  if (result.identical()) return result;

  // Factor and offset are tried on every element before the pattern names the region of the errors.
  if (finder.wants_second_look()) {
    for (int64_t begin = 0; begin < result.numel; begin += kBlock) {
      const int64_t size = std::min(kBlock, result.numel - begin);
      const double* g = got_reader.read(begin, size);
      const double* w = want_reader.read(begin, size);
      for (int64_t i = 0; i < size; ++i) finder.look_again(g[i], w[i]);
    }
  }
  Pattern pattern = finder.pattern(result.nan_count, result.nan_count > 0 && nan_is_untouched(got));
  if (pattern.advice == &kFormula) {
    Pattern better = explained(got, want, result.limit_of_spread * result.spread);
    if (!better.text.empty()) pattern = std::move(better);
  }
  result.pattern = pattern.text;
  result.name = pattern.advice->name;
  result.next = pattern.advice->next;
  return result;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  const auto size = static_cast<size_t>(a.bytes());
  return a.bytes() == b.bytes() && (!size || std::memcmp(a.data(), b.data(), size) == 0);
}

std::string position_text(const Shape& shape, int64_t flat) {
  Shape index(shape.size(), 0);
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] <= 0) return "[]";
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return shape_text(index);
}

}  // namespace fk
