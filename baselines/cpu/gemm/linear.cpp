// SPDX-License-Identifier: Apache-2.0
// linear: product.hpp as an op.
#ifdef FK_CPU_OPS
#include "fk/ops/linear.h"
#include "product.hpp"

namespace fk::cpu {

struct LinearOp {
  using op = fk::linear;
  // Not batch invariant: few and many rows are summed in different orders.
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CPU,
                                    FK_GRAPH_ALWAYS,       /*deterministic=*/1,
                                    /*batch_invariant=*/0, FK_ACCUMULATE_F32,
                                    /*side_streams=*/0,    /*sm_count=*/0,
                                    /*sm=*/nullptr};

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(weights.weight, "weight: f32, bf16 or f16");
    if (weights.bias.or_null) need_float(weights.bias.or_null, "bias: f32, bf16 or f16");
    need_float(max.x, "x: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch = Product::scratch_bytes(max.x->shape[0], init.in_features, types(weights, max));
  }
  LinearOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward& max, const fk_memory&) {
    product_ = std::make_unique<Product>(init_.out_features, init_.in_features,
                                         types(weights_, max), threads_);
    product_->prepare(max.x->shape[0], max.x->strides[0]);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    product_->run(args.x->shape[0], args.x->data, args.x->strides[0], weights_.weight->data,
                  data<void>(weights_.bias), args.out->data, ctx.scratch);
  }

 private:
  static ProductTypes types(const op::weights& weights, const op::forward& max) {
    return {type_of(max.x), type_of(weights.weight), type_of(max.out),
            weights.bias.or_null ? type_of(weights.bias.or_null) : -1};
  }

  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  std::unique_ptr<Product> product_;
};
FK_OP(linear, LinearOp);

}  // namespace fk::cpu
#endif
