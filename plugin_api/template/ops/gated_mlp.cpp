// SPDX-License-Identifier: Apache-2.0
// gated_mlp on the CPU, an op of level 2 made of children: linear, silu_and_mul and linear. The run
// chooses a provider for each child. Replace the children one by one with fused code. `fk-host show
// gated_mlp` prints the contract.
#define FK_GATED_MLP_EDITION 2  // the header shows the fields of edition 2, those with scales
#include "fk/ops/gated_mlp.h"

#include <stdexcept>

#include "fk/ops/linear.h"
#include "fk/ops/silu_and_mul.h"

namespace {

struct GatedMlp {
  using op = fk::gated_mlp;
  static constexpr fk_claims claims = fk::cpu_claims;
  const fk_host& host;
  // Frames of the children. Children read them until this object is destroyed.
  const fk_linear_init up_init, down_init;
  const fk_linear_weights up_weights, down_weights;
  const fk_silu_and_mul_init activation_init;
  fk_child *up = nullptr, *activation = nullptr, *down = nullptr;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    if (weights.gate_up_scale_inv.or_null || weights.down_scale_inv.or_null)
      throw fk::unsupported{"weights with scales"};
    // Scratch holds the outputs of up [T, 2 width] and of activation [T, width], in the dtype of x.
    need.scratch = 3 * max.x->shape[0] * init.intermediate_size * (max.x->dtype.bits / 8);
  }
  GatedMlp(const fk_host& h, const op::init& i, const op::weights& w)
      : host(h),
        up_init{i.hidden_size, 2 * i.intermediate_size},
        down_init{i.intermediate_size, i.hidden_size},
        up_weights{w.gate_up, /*bias=*/{nullptr}},
        down_weights{w.down, /*bias=*/{nullptr}},
        activation_init{i.intermediate_size} {}

  void prepare(const op::forward& max, const fk_memory&) {
    frames(max, nullptr, [&](const auto& u, const auto& a, const auto& d) {
      child(fk_linear_contract, &up_init, &up_weights, &u, up);
      child(fk_silu_and_mul_contract, &activation_init, nullptr, &a, activation);
      child(fk_linear_contract, &down_init, &down_weights, &d, down);
    });
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    frames(args, ctx.scratch, [&](const auto& u, const auto& a, const auto& d) {
      check(host.child_forward(up, &u, &ctx), ctx);
      check(host.child_forward(activation, &a, &ctx), ctx);
      check(host.child_forward(down, &d, &ctx), ctx);
    });
  }

 private:
  // Calls use(up, activation, down) with the children's frames. Their temporaries are in `scratch`,
  // which is null in prepare().
  template <class Use> void frames(const op::forward& args, void* scratch, Use use) {
    const int64_t tokens = args.x->shape[0], width = activation_init.size;
    const int64_t wide_shape[] = {tokens, 2 * width}, shape[] = {tokens, width};
    void* second = scratch ? static_cast<char*>(scratch) + tokens * 2 * width * (args.x->dtype.bits / 8)
                           : nullptr;
    fk_temp wide, narrow;
    const fk_out* both = fk_temp_view(&wide, args.x, scratch, 2, wide_shape);
    const fk_out* product = fk_temp_view(&narrow, args.x, second, 2, shape);
    use(fk_linear_forward{args.x, both}, fk_silu_and_mul_forward{fk_as_in(both), product},
        fk_linear_forward{fk_as_in(product), args.out});
  }
  void child(const fk_contract& contract, const void* init, const void* weights, const void* max,
             fk_child*& into) {
    fk_error error{FK_END(fk_error, text), /*code=*/0, /*native=*/0, /*line=*/0, /*text=*/{}};
    if (host.child(&host, &contract, init, weights, max, &into, &error) != FK_OK)
      throw std::runtime_error(error.text);
  }
  static void check(int32_t status, const fk_ctx& ctx) {
    if (status != FK_OK) throw std::runtime_error(ctx.error->text);
  }
};
FK_OP(gated_mlp, GatedMlp);

}  // namespace

FK_PLUGIN("template_gated_mlp", "0.1.0");
