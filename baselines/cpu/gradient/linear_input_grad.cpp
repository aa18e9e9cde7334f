// SPDX-License-Identifier: Apache-2.0
// linear_input_grad: product.hpp with a transposed copy of the weight.
#ifdef FK_CPU_OPS
#include "fk/ops/linear_input_grad.h"
#include "product.hpp"
#include "turned.hpp"

namespace fk::cpu {

struct LinearInputGradOp {
  using op = fk::linear_input_grad;
  // Not batch invariant: few and many rows are summed in different orders.
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CPU,
                                    FK_GRAPH_ALWAYS,       /*deterministic=*/1,
                                    /*batch_invariant=*/0, FK_ACCUMULATE_F32,
                                    /*side_streams=*/0,    /*sm_count=*/0,
                                    /*sm=*/nullptr};

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.grad, "grad: f32, bf16 or f16");
    need_float(max.weight, "weight: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch = turned_bytes(max.weight) +
                   Product::scratch_bytes(max.grad->shape[0], init.out_features, types(max));
  }
  LinearInputGradOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward& max, const fk_memory&) {
    product_ =
        std::make_unique<Product>(init_.in_features, init_.out_features, types(max), threads_);
    product_->prepare(max.grad->shape[0], init_.out_features);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    auto* turned = static_cast<char*>(ctx.scratch);
    turn_all(threads_, args.weight->data, init_.out_features, init_.in_features,
             static_cast<int>(bytes_of(type_of(args.weight))), turned, init_.out_features);
    product_->run(args.grad->shape[0], args.grad->data, init_.out_features, turned, nullptr,
                  args.out->data, turned + turned_bytes(args.weight));
  }

 private:
  static int64_t turned_bytes(const fk_in* weight) { return (weight->nbytes + 63) / 64 * 64; }
  static ProductTypes types(const op::forward& max) {
    return {type_of(max.grad), type_of(max.weight), type_of(max.out), -1};
  }

  const op::init& init_;
  const int threads_;
  std::unique_ptr<Product> product_;
};
FK_OP(linear_input_grad, LinearInputGradOp);

}  // namespace fk::cpu
#endif
