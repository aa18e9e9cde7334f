// SPDX-License-Identifier: Apache-2.0
// linear_weight_grad: product.hpp with transposed copies of both matrices. Zeros stand for the rows
// which a call has less than the largest one.
#ifdef FK_CPU_OPS
#include "fk/ops/linear_weight_grad.h"
#include "product.hpp"
#include "turned.hpp"

namespace fk::cpu {

struct LinearWeightGradOp {
  using op = fk::linear_weight_grad;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.grad, "grad: of x's type");
    need_float(max.out, "out: f32, bf16 or f16");
    const int64_t rows = max.x->shape[0], each = bytes_of(type_of(max.x));
    need.scratch = aligned(init.in_features * rows * each) +
                   aligned(init.out_features * rows * each) +
                   Product::scratch_bytes(init.out_features, rows, types(max));
  }
  LinearWeightGradOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward& max, const fk_memory&) {
    rows_ = max.x->shape[0];
    product_ = std::make_unique<Product>(init_.in_features, rows_, types(max), threads_);
    product_->prepare(init_.out_features, rows_);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t count = args.x->shape[0], each = bytes_of(type_of(args.x));
    auto* x = static_cast<char*>(ctx.scratch);
    char* grad = x + aligned(init_.in_features * rows_ * each);
    char* rest = grad + aligned(init_.out_features * rows_ * each);
    const auto turned = [&](const fk_in* from, int64_t columns, char* to) {
      turn_all(threads_, from->data, count, columns, static_cast<int>(each), to, rows_);
    };
    turned(args.x, init_.in_features, x);
    turned(args.grad, init_.out_features, grad);
    product_->run(init_.out_features, grad, rows_, x, nullptr, args.out->data, rest);
  }

 private:
  static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  static ProductTypes types(const op::forward& max) {
    return {type_of(max.grad), type_of(max.x), type_of(max.out), -1};
  }

  const op::init& init_;
  const int threads_;
  int64_t rows_ = 0;  // of the largest call
  std::unique_ptr<Product> product_;
};
FK_OP(linear_weight_grad, LinearWeightGradOp);

}  // namespace fk::cpu
#endif
