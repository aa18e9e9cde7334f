// SPDX-License-Identifier: Apache-2.0
// clipped_sgd_step: the norm of all gradients, then a step of each weight.
#include "fk/ops/clipped_sgd_step.h"
#include "op.hpp"

namespace fk::reference {
namespace {

constexpr int64_t kPart = 4096;  // elements which are loaded together

struct ClippedSgdStep : Base<clipped_sgd_step> {
  using Base::Base;
  struct Rows {
    double *grad, *weight;
    explicit Rows(Scratch& s) : grad(s.take(kPart)), weight(s.take(kPart)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    for (int64_t k = 0; k < init.num_tensors; ++k) need_floats(max.weight->at[k], max.grad->at[k]);
    need.scratch = scratch_bytes<Rows>();
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch);
    double squares = 0;
    each_part(args, [&](int64_t k, int64_t at, int64_t count) {
      load(args.grad->at[k], at, count, row.grad);
      for (int64_t i = 0; i < count; ++i) squares += row.grad[i] * row.grad[i];
    });
    const double norm = std::sqrt(squares) + init.eps;
    const double step = init.lr * (norm > init.max_norm ? init.max_norm / norm : norm * 0 + 1);
    each_part(args, [&](int64_t k, int64_t at, int64_t count) {
      load(args.grad->at[k], at, count, row.grad);
      load(args.weight->at[k], at, count, row.weight);
      for (int64_t i = 0; i < count; ++i) row.weight[i] -= step * row.grad[i];
      store(args.weight->at[k], at, count, row.weight);
    });
  }

 private:
  // body(tensor, first element, number of elements)
  template <class Body>
  void each_part(const op::forward& args, Body body) const {
    for (int64_t k = 0; k < init.num_tensors; ++k) {
      const int64_t all = args.grad->at[k]->shape[0];
      for (int64_t at = 0; at < all; at += kPart) body(k, at, std::min(kPart, all - at));
    }
  }
};
FK_OP(clipped_sgd_step, ClippedSgdStep);

}  // namespace
}  // namespace fk::reference
