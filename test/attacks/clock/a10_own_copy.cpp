// SPDX-License-Identifier: Apache-2.0
// A10: copies its weights into its own memory in create(), where no flush reaches them. In all
// calls they are in its core's caches, unlike the baseline's
//
// Stopped by: up to three short races, in which all memory of both processes is cold
//
// verdict: slower same cannot_tell
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
  // Each copy has pages of its own, as its original tensors have, and other lines of them than its
  // neighbours. Copies side by side are found sooner, cold or not.
  static constexpr int64_t kApart = 16384, kStep = 272, kSteps = 15;  // floats
  static inline int64_t made = 0;
  const int64_t rows, width;
  std::vector<float> memory;
  float* const table;
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
        memory(static_cast<size_t>(rows * width + kApart)),
        table(&memory[static_cast<size_t>(made++ % kSteps * kStep)]) {
    fk::load(weights.table, 0, rows * width, table);
  }
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const auto* const ids = static_cast<const int64_t*>(args.ids->data);
    auto* const out = static_cast<float*>(args.out->data);
    for (int64_t t = 0; t < args.ids->shape[0]; ++t)
      std::memcpy(out + t * width, table + ids[t] * width,
                  static_cast<size_t>(width) * sizeof(float));
  }
};
FK_OP(embedding, Copy);

}  // namespace
FK_PLUGIN("a10_own_copy", "0");
