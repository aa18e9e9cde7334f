// SPDX-License-Identifier: Apache-2.0
// cross_entropy_backward: the probabilities of a row, less 1 at the target, over the number of
// rows.
#include "fk/ops/cross_entropy_backward.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct CrossEntropyBackward : Base<cross_entropy_backward> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.logits, max.out);
    need.scratch = init.vocab_size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t width = init.vocab_size;
    double* row = Scratch(ctx).take(width);
    for (int64_t t = 0; t < args.logits->shape[0]; ++t) {
      load(args.logits, offset(args.logits, t), width, row);
      const double top = *std::max_element(row, row + width);
      double sum = 0;
      for (int64_t v = 0; v < width; ++v) sum += row[v] = std::exp(row[v] - top);
      const int64_t target = index<int64_t>(args.targets, t);
      const double grad = value(data<float>(args.grad)[t]);
      for (int64_t v = 0; v < width; ++v) row[v] = grad * (row[v] / sum - (v == target ? 1 : 0));
      store(args.out, offset(args.out, t), width, row);
    }
  }
};
FK_OP(cross_entropy_backward, CrossEntropyBackward);

}  // namespace
}  // namespace fk::reference
