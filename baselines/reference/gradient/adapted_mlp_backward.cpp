// SPDX-License-Identifier: Apache-2.0
// adapted_mlp_backward: token by token, with the gradients of both weights as sums in scratch.
#include "fk/ops/adapted_mlp_backward.h"
#include "gradient.hpp"
#include "op.hpp"

namespace fk::reference {
namespace {

struct AdaptedMlpBackward : Base<fk::adapted_mlp_backward> {
  using Base::Base;
  struct Rows {
    double *x, *grad, *hidden, *active, *inner, *out;
    double *gate_up_grad, *down_grad;  // whole matrices
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.hidden_size)),
          grad(s.take(i.hidden_size)),
          hidden(s.take(2 * i.intermediate_size)),
          active(s.take(i.intermediate_size)),
          inner(s.take(i.intermediate_size)),
          out(s.take(i.hidden_size)),
          gate_up_grad(s.take(2 * i.intermediate_size * i.hidden_size)),
          down_grad(s.take(i.intermediate_size * i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.gate_up, max.down, max.grad, max.out, max.gate_up_grad, max.down_grad);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const int64_t channels = init.hidden_size, width = init.intermediate_size;
    std::fill_n(row.gate_up_grad, 2 * width * channels, 0.0);
    std::fill_n(row.down_grad, width * channels, 0.0);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), channels, row.x);
      load(args.grad, offset(args.grad, t), channels, row.grad);
      matrix_vector(args.gate_up, 0, 2 * width, channels, nullptr, row.x, row.hidden);
      for (int64_t i = 0; i < width; ++i)
        row.active[i] = silu(row.hidden[i]) * row.hidden[width + i];
      add_outer(row.grad, channels, row.active, width, row.down_grad);
      vector_matrix(row.grad, args.down, 0, channels, width, row.inner);
      silu_halves_backward(row.hidden, width, row.inner);
      add_outer(row.hidden, 2 * width, row.x, channels, row.gate_up_grad);
      vector_matrix(row.hidden, args.gate_up, 0, 2 * width, channels, row.out);
      store(args.out, offset(args.out, t), channels, row.out);
    }
    store(args.gate_up_grad, 0, 2 * width * channels, row.gate_up_grad);
    store(args.down_grad, 0, width * channels, row.down_grad);
  }

 private:
  // sum[rows, columns] += a[rows]^T b[columns]
  static void add_outer(const double* a, int64_t rows, const double* b, int64_t columns,
                        double* sum) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) sum[r * columns + c] += a[r] * b[c];
  }
};
FK_OP(adapted_mlp_backward, AdaptedMlpBackward);

}  // namespace
}  // namespace fk::reference
