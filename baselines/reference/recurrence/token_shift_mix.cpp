// SPDX-License-Identifier: Apache-2.0
// token_shift_mix: each token beside the one before it, request by request.
#include "fk/ops/token_shift_mix.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct TokenShiftMix : Base<token_shift_mix> {
  using Base::Base;
  struct Rows {
    double *before, *x, *mu, *out;
    Rows(Scratch& s, const op::init& i)
        : before(s.take(i.channels)),
          x(s.take(i.channels)),
          mu(s.take(i.channels)),
          out(s.take(i.channels)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.mu, max.x, max.shift_state, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    const fk_in* has_state = args.has_initial_state.or_null;
    for (int64_t b = 0; b < args.state_slots->shape[0]; ++b) {
      const int64_t first = index<int32_t>(args.cu_seqlens, b);
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      if (first == last) continue;
      const int64_t slot = index<int32_t>(args.state_slots, b);
      if (!has_state || index<int32_t>(has_state, b))
        load(args.shift_state, offset(args.shift_state, slot), init.channels, rows.before);
      else
        std::fill_n(rows.before, init.channels, 0.0);
      for (int64_t t = first; t < last; ++t) {
        load(args.x, offset(args.x, t), init.channels, rows.x);
        mix(args, t, rows);
        std::copy_n(rows.x, init.channels, rows.before);
      }
      store(args.shift_state, offset(args.shift_state, slot), init.channels, rows.before);
    }
  }

 private:
  void mix(const op::forward& args, int64_t t, const Rows& rows) const {
    for (int64_t i = 0; i < init.mixtures; ++i) {
      load(weights.mu, i * init.channels, init.channels, rows.mu);
      for (int64_t c = 0; c < init.channels; ++c)
        rows.out[c] = rows.x[c] + (rows.before[c] - rows.x[c]) * rows.mu[c];
      store(args.out, offset(args.out, i, t), init.channels, rows.out);
    }
  }
};
FK_OP(token_shift_mix, TokenShiftMix);

}  // namespace
}  // namespace fk::reference
