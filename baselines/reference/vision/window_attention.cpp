// SPDX-License-Identifier: Apache-2.0
// window_attention: window by window (window.hpp).
#include "fk/ops/window_attention.h"
#include "window.hpp"

namespace fk::reference {
namespace {

struct WindowAttentionOp : Base<fk::window_attention> {
  using Base::Base;
  struct Rows {
    WindowRows window;
    double* row;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : window(s, i, args), row(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_window(w);
    need_floats(max.x, max.mask.or_null, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    window_biases(init, weights, args, rows.window);
    for (int64_t b = 0; b < args.x->shape[0]; ++b)
      reference::window_attention(
          init, weights, args, b, rows.window, rows.row,
          [&](int64_t t, double* x) { load(args.x, offset(args.x, b, t), init.hidden_size, x); },
          [&](int64_t t, double* out) {
            store(args.out, offset(args.out, b, t), init.hidden_size, out);
          });
  }
};
FK_OP(window_attention, WindowAttentionOp);

}  // namespace
}  // namespace fk::reference
