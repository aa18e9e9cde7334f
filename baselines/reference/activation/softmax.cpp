// SPDX-License-Identifier: Apache-2.0
// softmax: exponentials relative to the row's largest element, which cannot overflow.
#include <algorithm>
#include <cmath>

#include "fk/ops/softmax.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Softmax : Base<softmax> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.size);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.size, row);
      const double top = *std::max_element(row, row + init.size);
      double sum = 0;
      for (int64_t c = 0; c < init.size; ++c) sum += row[c] = std::exp(row[c] - top);
      for (int64_t c = 0; c < init.size; ++c) row[c] /= sum;
      store(args.out, offset(args.out, t), init.size, row);
    }
  }
};
FK_OP(softmax, Softmax);

}  // namespace
}  // namespace fk::reference
