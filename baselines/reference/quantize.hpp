// SPDX-License-Identifier: Apache-2.0
// Codes with scales: the arithmetic of the ops which quantise. A view of codes that is float32 gets
// the values before they are rounded and saturated, for the comparison.
#pragma once
#include "op.hpp"

namespace fk::reference {

struct I8 {
  int8_t bits;
};
inline double value(I8 x) { return x.bits; }

// Saturates at the largest number, 448; a NaN stays a NaN.
inline void put(F8e4m3& to, double v) {
  const double size = std::min(std::fabs(rounded(v, 4, -9)), 448.0);
  int exponent;
  const double fraction = std::frexp(size, &exponent);  // size = fraction * 2^exponent
  // Normal numbers are 8 to 15 steps of 2^(exponent - 4).
  const int code = std::isnan(v)   ? 0x7f
                   : size < 0x1p-6 ? static_cast<int>(size * 0x1p9)
                                   : (exponent + 6) * 8 + static_cast<int>(fraction * 16) - 8;
  to.bits = static_cast<uint8_t>(code | (std::signbit(v) ? 0x80 : 0));
}
inline void put(I8& to, double v) {
  const double whole = std::isnan(v) ? 0 : std::nearbyint(std::clamp(v, -128.0, 127.0));
  to.bits = static_cast<int8_t>(whole);
}

// Calls body with a null pointer to const whose type is the element type of a view of codes.
template <class View, class Body>
auto with_code_type(const View* view, Body body) {
  if (FK_DTYPE(view) == FK_F8E4M3) return body(static_cast<const F8e4m3*>(nullptr));
  if (FK_DTYPE(view) == FK_I8) return body(static_cast<const I8*>(nullptr));
  if (FK_DTYPE(view) == FK_F32) return body(static_cast<const float*>(nullptr));
  throw unsupported{"the codes are not f8e4m3, i8 or, before they are rounded, f32"};
}
inline void need_codes(const fk_out* view) {
  with_code_type(view, [](auto) {});
}

// Groups of `group_rows` rows and `group_columns` columns share a scale.
struct Groups {
  int64_t columns, group_rows, group_columns;
  double largest;  // code
  double eps;      // least size of a group's largest value
  bool power_of_two;

  int64_t across() const { return (columns + group_columns - 1) / group_columns; }
  float scale_of(double top) const {
    const auto scale = static_cast<float>(std::max(top, eps) / largest);
    if (!power_of_two || scale == 0) return scale;
    int exponent;  // scale = fraction * 2^exponent, with a fraction from 1/2 to 1
    const float fraction = std::frexp(scale, &exponent);
    return std::ldexp(1.0F, fraction == 0.5F ? exponent - 1 : exponent);
  }
};
struct QuantizeRows {
  double *row, *tops;
  QuantizeRows(Scratch& s, const Groups& g) : row(s.take(g.columns)), tops(s.take(g.across())) {}
};

// row_of(t, row) fills row t. `given` are static scales.
template <class RowOf>
void quantize(const Groups& g, int64_t rows, fk_opt_in given, const QuantizeRows& s,
              const fk_out* out, const fk_out* scale_out, RowOf row_of) {
  const int64_t across = g.across();
  float* scales = static_cast<float*>(scale_out->data);
  for (int64_t first = 0; first < rows; first += g.group_rows) {
    const int64_t last = std::min(rows, first + g.group_rows);
    std::fill_n(s.tops, across, 0.0);
    for (int64_t t = first; t < last && !given.or_null; ++t) {
      row_of(t, s.row);
      for (int64_t c = 0; c < g.columns; ++c) {
        double& top = s.tops[c / g.group_columns];
        top = std::max(top, std::fabs(s.row[c]));
      }
    }
    for (int64_t b = 0; b < across; ++b) {
      const int64_t at = first / g.group_rows * across + b;
      scales[at] = given.or_null ? data<float>(given.or_null)[at] : g.scale_of(s.tops[b]);
    }
    for (int64_t t = first; t < last; ++t) {
      row_of(t, s.row);
      with_code_type(out, [&](auto type) {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(type)>>;
        T* to = static_cast<T*>(out->data) + offset(out, t);
        for (int64_t c = 0; c < g.columns; ++c) {
          const double scale = value(scales[first / g.group_rows * across + c / g.group_columns]);
          put(to[c], scale == 0 ? 0 : s.row[c] / scale);
        }
      });
    }
  }
}

// An op that writes codes of x as it is. `Own::groups` makes the groups from the op's init.
template <class Own, class Op>
struct QuantizeAsIs : Base<Op> {
  using Base<Op>::Base;
  static void supports(const typename Op::init& init, const typename Op::weights&,
                       const typename Op::forward& max, fk_need& need) {
    need_floats(max.x);
    need_codes(max.out);
    need.scratch = scratch_bytes<QuantizeRows>(Own::groups(init));
  }
  void forward(const typename Op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Groups groups = Own::groups(this->init);
    const QuantizeRows rows(scratch, groups);
    quantize(groups, args.x->shape[0], args.scale, rows, args.out, args.scale_out,
             [&](int64_t t, double* row) { load(args.x, offset(args.x, t), groups.columns, row); });
  }
};

}  // namespace fk::reference
