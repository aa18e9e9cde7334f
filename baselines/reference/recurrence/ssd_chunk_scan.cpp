// SPDX-License-Identifier: Apache-2.0
// ssd_chunk_scan: the recurrence itself, head by head and token by token; no chunks.
#include "fk/ops/ssd_chunk_scan.h"
#include "recurrence.hpp"

namespace fk::reference {
namespace {

struct SsdChunkScan : Base<ssd_chunk_scan> {
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
    for (int64_t b = 0; b < args.state_slots->shape[0]; ++b) {
      const int64_t first = index<int32_t>(args.cu_seqlens, b);
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      if (first == last) continue;
      const int64_t slot = index<int32_t>(args.state_slots, b);
      const bool fresh = index<int32_t>(args.has_initial_state, b) == 0;
      for (int64_t h = 0; h < init.num_heads; ++h) head(args, h, first, last, slot, fresh, rows);
    }
  }

 private:
  void head(const op::forward& args, int64_t h, int64_t first, int64_t last, int64_t slot,
            bool fresh, const Rows& rows) const {
    const StepSize step_size{init.dt_softplus != 0, init.dt_min, init.dt_max};
    const double a = value(data<float>(weights.a)[h]);
    const double skip = element_or(weights.d.or_null, h, 0);
    const double bias = element_or(weights.dt_bias.or_null, h, 0);
    const int64_t group = h / (init.num_heads / init.num_groups);
    const int64_t size = init.head_dim * init.state_size, state = offset(args.ssm_state, slot, h);
    if (fresh)
      std::fill_n(rows.state, size, 0.0);
    else
      load(args.ssm_state, state, size, rows.state);
    for (int64_t t = first; t < last; ++t) {
      double dt;
      load(args.dt, offset(args.dt, t, h), 1, &dt);
      load(args.x, offset(args.x, t, h), init.head_dim, rows.x);
      load(args.b, offset(args.b, t, group), init.state_size, rows.b);
      load(args.c, offset(args.c, t, group), init.state_size, rows.c);
      ssd_step(rows.state, init.head_dim, init.state_size, step_size(dt + bias), a, skip, rows.x,
               rows.b, rows.c, rows.out);
      store(args.out, offset(args.out, t, h), init.head_dim, rows.out);
    }
    store(args.ssm_state, state, size, rows.state);
  }
};
FK_OP(ssd_chunk_scan, SsdChunkScan);

}  // namespace
}  // namespace fk::reference
