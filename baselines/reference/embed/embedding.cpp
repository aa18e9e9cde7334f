// SPDX-License-Identifier: Apache-2.0
// embedding: out[t] = table[ids[t]].
#include "fk/ops/embedding.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Embedding : Base<embedding> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.table, max.out);
    need.scratch = init.embedding_dim * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.embedding_dim);
    for (int64_t t = 0; t < args.ids->shape[0]; ++t) {
      load(weights.table, offset(weights.table, index<int64_t>(args.ids, t)), init.embedding_dim,
           row);
      store(args.out, offset(args.out, t), init.embedding_dim, row);
    }
  }
};
FK_OP(embedding, Embedding);

}  // namespace
}  // namespace fk::reference
