// SPDX-License-Identifier: Apache-2.0
// vocab_parallel_embedding: the row of an id if this rank has it, else zeros.
#include "fk/ops/vocab_parallel_embedding.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct VocabParallelEmbedding : Ranked<vocab_parallel_embedding> {
  using Ranked::Ranked;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_comm(init.comm);
    need_floats(weights.table, max.out);
    need.scratch = init.embedding_dim * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.embedding_dim);
    const int64_t here = init.num_embeddings_per_partition, first = comm()->rank * here;
    for (int64_t t = 0; t < args.ids->shape[0]; ++t) {
      const int64_t id = index<int64_t>(args.ids, t) - first;
      if (id >= 0 && id < here)
        load(weights.table, offset(weights.table, id), init.embedding_dim, row);
      else
        std::fill_n(row, init.embedding_dim, 0.0);
      store(args.out, offset(args.out, t), init.embedding_dim, row);
    }
  }
};
FK_OP(vocab_parallel_embedding, VocabParallelEmbedding);

}  // namespace
}  // namespace fk::reference
