// SPDX-License-Identifier: Apache-2.0
// Codes with scales, for the ops which quantise. Two kernels work on rows: one finds the largest
// value of each group of columns, the other writes codes.
#pragma once
#include "level.hpp"

namespace fk::cpu {

// Rows of x have `columns` elements, and `step` from one row to the next; a row has `across`
// groups. `tops` [rows, across]; `inverses` [rows / group_rows, across] are 1 / scale, or 0.
struct QuantizeRows {
  const void* x;
  int64_t step, columns, group_rows, group_columns, across;
  float* tops;
  const float* inverses;
  uint8_t* out;
  int type, whole;  // whole: int8, else f8e4m3
};

}  // namespace fk::cpu

FK_CPU_KERNEL(quantize_tops, const QuantizeRows&, int64_t begin, int64_t end)
FK_CPU_KERNEL(quantize_codes, const QuantizeRows&, int64_t begin, int64_t end)

#ifdef FK_CPU_OPS
#include "op.hpp"

namespace fk::cpu {

// Quantises all rows of a call.
class Quantizer {
 public:
  float largest = 448, eps = 0;  // the largest code; least size of a group's largest value
  int power_of_two = 0, threads = 1;

  // Floats of scratch: tops of all rows, then inverses.
  static int64_t scratch_bytes(int64_t rows, int64_t across) { return 8 * rows * across; }

  // x and out are set in `a`. `given` are static scales. `fill(begin, end)`, if it is not empty,
  // makes rows of x first. [fill: any thread]
  template <class Fill>
  void run(QuantizeRows a, int64_t rows, fk_opt_in given, float* scales, void* scratch,
           Fill fill) const {
    a.tops = static_cast<float*>(scratch);
    float* inverses = a.tops + rows * a.across;
    a.inverses = inverses;
    const float* fixed = given.or_null ? data<float>(given.or_null) : nullptr;
    const auto scale_groups = [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) scale_group(a, g, rows, fixed, scales, inverses);
    };
    const int64_t bytes = rows * a.columns * (bytes_of(a.type) + 1);
    if (a.group_rows == 1)
      return split(threads, rows, bytes, [&](int64_t begin, int64_t end, int) {
        fill(begin, end);
        if (!fixed) tops_(a, begin, end);
        scale_groups(begin, end);
        codes_(a, begin, end);
      });
    split(threads, rows, bytes, [&](int64_t begin, int64_t end, int) {
      fill(begin, end);
      if (!fixed) tops_(a, begin, end);
    });
    scale_groups(0, (rows + a.group_rows - 1) / a.group_rows);
    split(threads, rows, bytes, [&](int64_t begin, int64_t end, int) { codes_(a, begin, end); });
  }

 private:
  // Scales of the group of rows `g`.
  void scale_group(const QuantizeRows& a, int64_t g, int64_t rows, const float* fixed,
                   float* scales, float* inverses) const {
    const int64_t first = g * a.group_rows, last = std::min(rows, first + a.group_rows);
    for (int64_t b = 0; b < a.across; ++b) {
      const int64_t at = g * a.across + b;
      float scale = fixed ? fixed[at] : 0;
      if (!fixed) {
        float top = eps;
        for (int64_t t = first; t < last; ++t) top = std::max(top, a.tops[t * a.across + b]);
        scale = top / largest;
        if (power_of_two && scale > 0) {
          int exponent;
          const float fraction = std::frexp(scale, &exponent);
          scale = std::ldexp(1.F, fraction == 0.5F ? exponent - 1 : exponent);
        }
      }
      scales[at] = scale;
      inverses[at] = scale > 0 ? 1 / scale : 0;
    }
  }

  decltype(&generic::quantize_tops) tops_ = FK_CPU_PICK(quantize_tops);
  decltype(&generic::quantize_codes) codes_ = FK_CPU_PICK(quantize_codes);
};

// An op that writes codes of x as it is. Own has kCode, the dtype of codes, and kRefusal, the error
// for another one. Its set(init, quantizer) sets the limits and returns the columns of a group.
template <class Own, class Op>
struct QuantizeAsIs {
  using op = Op;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const typename Op::init&, const typename Op::weights&,
                       const typename Op::forward& max, fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    if (FK_DTYPE(max.out) != Own::kCode) throw unsupported{Own::kRefusal};
    need.scratch = Quantizer::scratch_bytes(max.x->shape[0], max.scale_out->shape[1]);
  }
  QuantizeAsIs(const fk_host& host, const typename Op::init& init, const typename Op::weights&)
      : init_(init), group_columns_(Own::set(init, quantizer_)) {
    quantizer_.threads = threads_of(host);
  }
  void prepare(const typename Op::forward&, const fk_memory&) {}
  void forward(const typename Op::forward& args, const fk_ctx& ctx) {
    QuantizeRows a{};
    a.x = args.x->data, a.step = args.x->strides[0], a.type = type_of(args.x);
    a.columns = init_.size, a.across = args.scale_out->shape[1];
    a.group_rows = init_.group_rows, a.group_columns = group_columns_;
    a.out = data<uint8_t>(args.out), a.whole = FK_DTYPE(args.out) == FK_I8;
    quantizer_.run(a, args.x->shape[0], args.scale, data<float>(args.scale_out), ctx.scratch,
                   [](int64_t, int64_t) {});
  }

 private:
  const typename Op::init& init_;
  Quantizer quantizer_;
  const int64_t group_columns_;
};

}  // namespace fk::cpu
#endif
