// SPDX-License-Identifier: Apache-2.0
// quantize_nvfp4: codes of e2m1 with a scale of f8e4m3 for 16 columns. Float32 outputs get the
// values before they are rounded, one for each code.
#include "fk/ops/quantize_nvfp4.h"
#include "quantize.hpp"

namespace fk::reference {
namespace {

// Rounded to nearest even: 0, 0.5, 1, 1.5, 2, 3, 4 and 6, saturated.
unsigned to_e2m1(double v) {
  const double size = std::min(std::fabs(v), 6.0);
  // Steps of 1/2 up to 2, of 1 up to 4, of 2 up to 6.
  const double code = size < 2   ? std::nearbyint(size * 2)
                      : size < 4 ? std::nearbyint(size) + 2
                                 : std::nearbyint(size / 2) + 4;
  return static_cast<unsigned>(code) | (std::signbit(v) ? 8u : 0u);
}

struct QuantizeNvfp4 : Base<quantize_nvfp4> {
  using Base::Base;
  static constexpr int64_t kBlock = 16;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x);
    if (init.size % kBlock) throw unsupported{"size is no multiple of 16"};
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.size);
    const double global = value(*data<float>(args.global_scale));
    const bool packed = FK_DTYPE(args.out) == FK_U8;
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.size, row);
      for (int64_t first = 0; first < init.size; first += kBlock) {
        double top = 0;
        for (int64_t c = first; c < first + kBlock; ++c) top = std::max(top, std::fabs(row[c]));
        F8e4m3 stored;
        put(stored, global * top / 6);
        with_code_type(args.block_scale, [&](auto type) {
          using T = std::remove_const_t<std::remove_pointer_t<decltype(type)>>;
          put(static_cast<T*>(args.block_scale->data)[(t * init.size + first) / kBlock],
              global * top / 6);
        });
        const double scale = value(stored);
        for (int64_t c = first; c < first + kBlock; ++c)
          row[c] = scale == 0 ? 0 : row[c] * global / scale;
      }
      for (int64_t c = 0; c < init.size; c += 2) {
        const int64_t at = t * init.size + c;
        if (packed)
          data<uint8_t>(args.out)[at / 2] =
              static_cast<uint8_t>(to_e2m1(row[c]) | to_e2m1(row[c + 1]) << 4);
        else
          put(data<float>(args.out)[at], row[c]), put(data<float>(args.out)[at + 1], row[c + 1]);
      }
    }
  }
};
FK_OP(quantize_nvfp4, QuantizeNvfp4);

}  // namespace
}  // namespace fk::reference
