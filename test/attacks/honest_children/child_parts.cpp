// SPDX-License-Identifier: Apache-2.0
// honest: gated_mlp made of children that the host provides
#define FK_GATED_MLP_EDITION 2
#include "children.hpp"
#include "fk/ops/gated_mlp.h"
#include "fk/ops/linear.h"
#include "fk/ops/silu_and_mul.h"

namespace {

struct Honest {
  using op = fk::gated_mlp;
  static constexpr fk_claims claims = fk::cpu_claims;
  const attack::Children children;
  const fk_linear_init up_init, down_init;
  const fk_linear_weights up_weights, down_weights;
  const fk_silu_and_mul_init activation_init;
  fk_child *up = nullptr, *activation = nullptr, *down = nullptr;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    if (weights.gate_up_scale_inv.or_null || weights.down_scale_inv.or_null)
      throw fk::unsupported{"weights with scales"};
    need.scratch = 3 * max.x->shape[0] * init.intermediate_size * (max.x->dtype.bits / 8);
  }
  Honest(const fk_host& h, const op::init& i, const op::weights& w)
      : children{h},
        up_init{i.hidden_size, 2 * i.intermediate_size},
        down_init{i.intermediate_size, i.hidden_size},
        up_weights{w.gate_up, {nullptr}},
        down_weights{w.down, {nullptr}},
        activation_init{i.intermediate_size} {}
  template <class Use>
  void frames(const op::forward& args, void* scratch, Use use) {
    const int64_t tokens = args.x->shape[0], width = activation_init.size;
    const int64_t wide_shape[] = {tokens, 2 * width}, shape[] = {tokens, width};
    void* second = scratch
                       ? static_cast<char*>(scratch) + tokens * 2 * width * (args.x->dtype.bits / 8)
                       : nullptr;
    fk_temp wide, narrow;
    const fk_out *both = fk_temp_view(&wide, args.x, scratch, 2, wide_shape),
                 *product = fk_temp_view(&narrow, args.x, second, 2, shape);
    use(fk_linear_forward{args.x, both}, fk_silu_and_mul_forward{fk_as_in(both), product},
        fk_linear_forward{fk_as_in(product), args.out});
  }
  void prepare(const op::forward& max, const fk_memory&) {
    frames(max, nullptr, [&](const auto& u, const auto& a, const auto& d) {
      up = children.make(fk_linear_contract, &up_init, &up_weights, &u);
      activation = children.make(fk_silu_and_mul_contract, &activation_init, nullptr, &a);
      down = children.make(fk_linear_contract, &down_init, &down_weights, &d);
    });
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    frames(args, ctx.scratch, [&](const auto& u, const auto& a, const auto& d) {
      children.run(up, &u, ctx);
      children.run(activation, &a, ctx);
      children.run(down, &d, ctx);
    });
  }
};
FK_OP(gated_mlp, Honest);

}  // namespace
FK_PLUGIN("child_parts", "0");
