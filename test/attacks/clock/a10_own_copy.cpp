// SPDX-License-Identifier: Apache-2.0
// A10: copies its weights into memory of its own when it is made, where no flush reaches them: in
// all calls they lie in its core's caches, where the baseline's do not
//
// Stopped by: a short race in which all memory of both processes is cold
//
// work: honest
//
// naive: -
#include "../attack.hpp"
#include "fk/ops/embedding.h"

namespace {

struct Copy {
  using op = fk::embedding;
  static constexpr fk_claims claims = fk::cpu_claims;
  const int64_t rows, width;
  std::vector<float> table;
  // A table that fits into a line or two is quicker to find among others as well, cold or not.
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (init.num_embeddings < 2) throw fk::unsupported{"tables of several rows only"};
    if (!fk::is_float(weights.table) || FK_DTYPE(max.out) != FK_F32)
      throw fk::unsupported{"f32 from f32, bf16 and f16 only"};
  }
  Copy(const fk_host&, const op::init& init, const op::weights& weights)
      : rows(init.num_embeddings),
        width(init.embedding_dim),
        table(static_cast<size_t>(rows * width)) {
    fk::load(weights.table, 0, rows * width, table.data());
  }
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const auto* const ids = static_cast<const int64_t*>(args.ids->data);
    auto* const out = static_cast<float*>(args.out->data);
    // Three times, so that the truth is that it is slow.
    for (int pass = 0; pass < 3; ++pass) {
      for (int64_t t = 0; t < args.ids->shape[0]; ++t)
        std::memcpy(out + t * width, &table[static_cast<size_t>(ids[t] * width)],
                    static_cast<size_t>(width) * sizeof(float));
      asm volatile("" ::: "memory");
    }
  }
};
FK_OP(embedding, Copy);

}  // namespace
FK_PLUGIN("a10_own_copy", "0");
