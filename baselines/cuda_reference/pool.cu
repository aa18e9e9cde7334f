// SPDX-License-Identifier: Apache-2.0
// mean_pool: one thread per channel of an image, which sums over its positions in order.
#include "common.cuh"
#include "fk/ops/mean_pool.h"

namespace {
using namespace fkr;

struct MeanPool : Plain<fk::mean_pool> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const int64_t width = init.size, positions = a.x->shape[1] * a.x->shape[2];
    for_each(a.x->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t b = i / width, c = i % width;
      double sum = 0;
      for (int64_t p = 0; p < positions; ++p) sum += load(x, (b * positions + p) * width + c);
      store(out, i, sum / double(positions));
    });
  }
};
FK_OP(mean_pool, MeanPool);

}  // namespace
