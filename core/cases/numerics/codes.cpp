// SPDX-License-Identifier: Apache-2.0
#include "core/cases/numerics/codes.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/parts.hpp"
#include "core/cases/tolerance.hpp"

namespace fk {

namespace {

// The magnitudes of e2m1. The fourth bit of a code is its sign.
constexpr std::array<double, 8> kE2m1 = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

uint8_t e2m1_from(double value) {
  const double size = std::abs(value);
  size_t code = 0;
  // An odd code has an odd mantissa, so a tie goes to the even code.
  while (code + 1 < kE2m1.size()) {
    const double middle = (kE2m1[code] + kE2m1[code + 1]) / 2;
    if (size < middle || (size == middle && code % 2 == 0)) break;
    ++code;
  }
  return static_cast<uint8_t>(code | (std::signbit(value) ? 8u : 0u));
}

double e2m1_value(unsigned code) { return code & 8 ? -kE2m1[code & 7] : kE2m1[code & 7]; }

// A value as its code stores it.
double stored(double value, DType dtype) {
  if (dtype == DType::u8) return e2m1_value(e2m1_from(value));
  std::array<std::byte, 8> code{};
  from_double(value, code.data(), dtype);
  return to_double(code.data(), dtype);
}

// Element i of a tensor of codes.
double code_at(const Tensor& codes, int64_t i) {
  if (codes.dtype != DType::u8) return codes.at(i);
  const unsigned two = codes.as<uint8_t>()[static_cast<size_t>(i / 2)];
  return e2m1_value(i % 2 ? two >> 4 : two & 15);
}

// Share by which the value of a code may be off before it is rounded. In L1, float32 code makes a
// quotient and a product. Above L1, two parts may also be rounded to the working dtype.
double share_off(const ResolvedCase& resolved) {
  const double own = 8 * epsilon(DType::f32);
  if (resolved.contract->level < 2) return own;
  const DType working = working_dtype(resolved);
  return working == DType::f32 ? 16 * own : own + epsilon(working);
}

// Factor between the reference's scale and the provider's, for each element.
class Factors {
 public:
  Factors(const ResolvedCase& resolved, const CodeField& code, int64_t width,
          const CaseValues& want, const CaseValues& got)
      : width_(width) {
    if (code.scale.empty()) return;
    const Tensor &right = want.at(code.scale)[0], &mine = got.at(code.scale)[0];
    rows_ = code.rows.eval(resolved.axes), columns_ = code.columns.eval(resolved.axes);
    across_ = mine.shape.empty() ? 1 : mine.shape.back();
    // The reference divides by the scale as it is stored.
    for (int64_t i = 0; i < mine.numel(); ++i) {
      const double theirs = stored(right.at(i), mine.dtype), own = mine.at(i);
      all_.push_back(own == theirs ? 1 : theirs / own);
    }
  }
  double at(int64_t i) const {
    if (all_.empty()) return 1;
    return all_[static_cast<size_t>(i / width_ / rows_ * across_ + i % width_ / columns_)];
  }

 private:
  const int64_t width_;
  int64_t rows_ = 1, columns_ = 1, across_ = 1;
  std::vector<double> all_;
};

}  // namespace

void widen_codes(const Contract& contract, CaseField& field) {
  if (!contract.tolerance.codes.count(field.slot->name)) return;
  if (field.dtype == DType::u8) field.shape.back() *= 2;
  field.dtype = DType::f32;
}

Tensor codes_of(const Tensor& unrounded, DType dtype) {
  if (dtype != DType::u8) return unrounded.to(dtype);
  Shape shape = unrounded.shape;
  shape.back() /= 2;
  Tensor out(dtype, shape);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.as<uint8_t>()[static_cast<size_t>(i)] = static_cast<uint8_t>(
        e2m1_from(unrounded.at(2 * i)) | e2m1_from(unrounded.at(2 * i + 1)) << 4);
  return out;
}

Tensor nearest_codes(const ResolvedCase& resolved, const CaseField& field, const Tensor& mine,
                     const CaseValues& want, const CaseValues& got) {
  const std::string& name = field.slot->name;
  const Tensor& unrounded = want.at(name)[0];
  if (unrounded.dtype == mine.dtype) return unrounded;
  const int64_t width = unrounded.shape.empty() ? 1 : unrounded.shape.back();
  const Factors factors(resolved, resolved.contract->tolerance.codes.at(name), width, want, got);
  const double off = share_off(resolved);
  Tensor scaled(DType::f32, unrounded.shape);
  // Each code that is right is moved onto the value that it stands for.
  constexpr int64_t kPart = int64_t{1} << 16;  // elements
  const int64_t count = unrounded.numel();
  in_parts(static_cast<size_t>((count + kPart - 1) / kPart), [&](size_t part) {
    const int64_t first = static_cast<int64_t>(part) * kPart;
    for (int64_t i = first; i < std::min(count, first + kPart); ++i) {
      const double value = unrounded.at(i) * factors.at(i), code = code_at(mine, i);
      const double low = stored(value - off * std::abs(value), mine.dtype);
      const double high = stored(value + off * std::abs(value), mine.dtype);
      scaled.set(i, code >= low && code <= high ? code : value);
    }
  });
  return codes_of(scaled, mine.dtype);
}

}  // namespace fk
