// SPDX-License-Identifier: Apache-2.0
// delta_gate: softplus and sigmoid of a head's projections.
#include "fk/ops/delta_gate.h"
#include "recurrence.hpp"

namespace fk::reference {
namespace {

struct DeltaGate : Base<delta_gate> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.dt_bias, max.x, max.b);
    need.scratch = init.gate_dim * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.gate_dim);
    const StepSize step_size;
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      for (int64_t h = 0; h < init.num_heads; ++h) {
        load(args.x, offset(args.x, t, h), init.gate_dim, row);
        add_scaled(weights.dt_bias, h * init.gate_dim, init.gate_dim, 1, row);
        for (int64_t d = 0; d < init.gate_dim; ++d)
          row[d] = value(data<float>(weights.a)[h]) * step_size(row[d]);
        store(args.g, offset(args.g, t, h), init.gate_dim, row);
        load(args.b, offset(args.b, t, h), 1, row);
        *row = 1 / (1 + std::exp(-*row));
        store(args.beta, offset(args.beta, t, h), 1, row);
      }
    }
  }
};
FK_OP(delta_gate, DeltaGate);

}  // namespace
}  // namespace fk::reference
