// SPDX-License-Identifier: Apache-2.0
// lightgcn_propagation: all nodes in doubles, twice, and their sum over layers.
#include "fk/ops/lightgcn_propagation.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct LightgcnPropagation : Base<lightgcn_propagation> {
  using Base::Base;
  struct Rows {
    double *now, *next, *sum, *values;
    Rows(Scratch& s, const op::init& init, const op::forward& args)
        : now(s.take(args.x->shape[0] * init.size)),
          next(s.take(args.x->shape[0] * init.size)),
          sum(s.take(args.x->shape[0] * init.size)),
          values(s.take(args.values->shape[0])) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.values, max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t nodes = args.x->shape[0], size = init.size;
    Scratch scratch(ctx);
    Rows r(scratch, init, args);
    load(args.values, 0, args.values->shape[0], r.values);
    load(args.x, 0, nodes * size, r.now);
    std::copy_n(r.now, nodes * size, r.sum);
    for (int64_t l = 0; l < init.num_layers; ++l) {
      std::fill_n(r.next, nodes * size, 0.0);
      for (int64_t m = 0; m < nodes; ++m) {
        const int64_t last = index<int32_t>(args.indptr, m + 1);
        for (int64_t j = index<int32_t>(args.indptr, m); j < last; ++j) {
          const double* from = r.now + index<int32_t>(args.indices, j) * size;
          for (int64_t c = 0; c < size; ++c) r.next[m * size + c] += r.values[j] * from[c];
        }
      }
      std::swap(r.now, r.next);
      for (int64_t i = 0; i < nodes * size; ++i) r.sum[i] += r.now[i];
    }
    const auto layers = static_cast<double>(init.num_layers + 1);
    for (int64_t i = 0; i < nodes * size; ++i) r.sum[i] /= layers;
    store(args.out, 0, nodes * size, r.sum);
  }
};
FK_OP(lightgcn_propagation, LightgcnPropagation);

}  // namespace
}  // namespace fk::reference
