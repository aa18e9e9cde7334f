// SPDX-License-Identifier: Apache-2.0
// embedding: copies rows of the table; memory bounds its time.
#ifdef FK_CPU_OPS
#include "fk/ops/embedding.h"
#include "op.hpp"

namespace fk::cpu {

struct EmbeddingOp {
  using op = fk::embedding;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_same(weights.table, max.out, "out: of the table's type");
  }
  EmbeddingOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t bytes = init_.embedding_dim * args.out->dtype.bits / 8;
    const auto* table = data<char>(weights_.table);
    const auto* ids = data<int64_t>(args.ids);
    auto* out = data<char>(args.out);
    split(threads_, args.ids->shape[0], args.out->nbytes * 2, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        std::memcpy(out + t * bytes, table + ids[t] * bytes, static_cast<size_t>(bytes));
      }
    });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
};
FK_OP(embedding, EmbeddingOp);

}  // namespace fk::cpu
#endif
