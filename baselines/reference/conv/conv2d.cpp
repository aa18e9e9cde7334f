// SPDX-License-Identifier: Apache-2.0
// conv2d: every row of the weight times the input patch of an output pixel (gather_patch() in
// image.hpp).
#include "fk/ops/conv2d.h"
#include "image.hpp"

namespace fk::reference {
namespace {

Window window_of(const fk_conv2d_init& init) {
  Window w{};
  for (int i = 0; i < 2; ++i) {
    w.kernel[i] = init.kernel_size->at[i];
    w.stride[i] = init.stride->at[i];
    w.padding[i] = init.padding->at[i];
    w.dilation[i] = init.dilation->at[i];
  }
  return w;
}

struct Conv2d : Base<conv2d> {
  using Base::Base;
  struct Rows {
    double *x, *patch, *out;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.in_channels)),
          patch(s.take(i.in_channels * i.kernel_size->at[0] * i.kernel_size->at[1])),
          out(s.take(i.out_channels)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight, weights.bias.or_null, max.x, max.out);
    if (init.in_channels % init.groups || init.out_channels % init.groups)
      throw unsupported{"groups: does not divide the channels"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const Window window = window_of(init);
    const int64_t length = init.in_channels / init.groups * window.kernel[0] * window.kernel[1];
    const int64_t each = init.out_channels / init.groups;
    const int64_t* shape = args.out->shape;
    for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; ++i) {
      const int64_t b = i / shape[2] / shape[1], oy = i / shape[2] % shape[1], ox = i % shape[2];
      gather_patch(args.x, window, b, oy, ox, row.x, row.patch);
      if (const fk_in* bias = weights.bias.or_null)
        load(bias, 0, init.out_channels, row.out);
      else
        std::fill_n(row.out, init.out_channels, 0.0);
      for (int64_t o = 0; o < init.out_channels; ++o)
        row.out[o] += dot_view(weights.weight, o * length, row.patch + o / each * length, length);
      store(args.out, offset(args.out, b, oy, ox), init.out_channels, row.out);
    }
  }
};
FK_OP(conv2d, Conv2d);

}  // namespace
}  // namespace fk::reference
