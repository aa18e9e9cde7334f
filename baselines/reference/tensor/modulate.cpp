// SPDX-License-Identifier: Apache-2.0
// modulate: a factor and a summand for each channel of an image.
#include "fk/ops/modulate.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Modulate : Base<modulate> {
  using Base::Base;
  struct Rows {
    double *x, *scale, *shift;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.size)), scale(s.take(i.size)), shift(s.take(i.size)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.scale.or_null, max.shift.or_null, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    std::fill_n(row.scale, init.size, 0.0);
    std::fill_n(row.shift, init.size, 0.0);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      if (const fk_in* scale = args.scale.or_null)
        load(scale, offset(scale, b), init.size, row.scale);
      if (const fk_in* shift = args.shift.or_null)
        load(shift, offset(shift, b), init.size, row.shift);
      for (int64_t s = 0; s < args.x->shape[1]; ++s) {
        load(args.x, offset(args.x, b, s), init.size, row.x);
        for (int64_t c = 0; c < init.size; ++c)
          row.x[c] = row.x[c] * (init.offset + row.scale[c]) + row.shift[c];
        store(args.out, offset(args.out, b, s), init.size, row.x);
      }
    }
  }
};
FK_OP(modulate, Modulate);

}  // namespace
}  // namespace fk::reference
