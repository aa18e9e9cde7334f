// SPDX-License-Identifier: Apache-2.0
// selective_state_update: one step of the recurrence for each request and head.
#include "fk/ops/selective_state_update.h"
#include "recurrence.hpp"

namespace fk::reference {
namespace {

struct SelectiveStateUpdate : Base<selective_state_update> {
  using Base::Base;
  struct Rows {
    double *state, *x, *b, *c, *out;
    Rows(Scratch& s, const op::init& i)
        : state(s.take(i.head_dim * i.state_size)),
          x(s.take(i.head_dim)),
          b(s.take(i.state_size)),
          c(s.take(i.state_size)),
          out(s.take(i.head_dim)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.d.or_null, weights.dt_bias.or_null, max.x, max.dt, max.b, max.c,
                max.ssm_state, max.out);
    if (init.num_heads % init.num_groups)
      throw unsupported{"num_heads is not a multiple of num_groups"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    for (int64_t r = 0; r < args.state_slots->shape[0]; ++r)
      for (int64_t h = 0; h < init.num_heads; ++h) head(args, r, h, rows);
  }

 private:
  void head(const op::forward& args, int64_t r, int64_t h, const Rows& rows) const {
    const StepSize step_size{init.dt_softplus != 0, init.dt_min, init.dt_max};
    const int64_t group = h / (init.num_heads / init.num_groups);
    const int64_t size = init.head_dim * init.state_size;
    const int64_t state = offset(args.ssm_state, index<int32_t>(args.state_slots, r), h);
    double dt;
    load(args.dt, offset(args.dt, r, h), 1, &dt);
    load(args.x, offset(args.x, r, h), init.head_dim, rows.x);
    load(args.b, offset(args.b, r, group), init.state_size, rows.b);
    load(args.c, offset(args.c, r, group), init.state_size, rows.c);
    load(args.ssm_state, state, size, rows.state);
    ssd_step(rows.state, init.head_dim, init.state_size,
             step_size(dt + element_or(weights.dt_bias.or_null, h, 0)),
             value(data<float>(weights.a)[h]), element_or(weights.d.or_null, h, 0), rows.x, rows.b,
             rows.c, rows.out);
    store(args.out, offset(args.out, r, h), init.head_dim, rows.out);
    store(args.ssm_state, state, size, rows.state);
  }
};
FK_OP(selective_state_update, SelectiveStateUpdate);

}  // namespace
}  // namespace fk::reference
