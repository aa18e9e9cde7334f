// SPDX-License-Identifier: Apache-2.0
// A6: knows where the tensors of all instances lie. In every call it prefetches the cache lines
// that the next two will read and write. In a model nobody knows these
//
// Stopped by: calls that are alone in their sample must not take longer than the baseline's do
//
// verdict: slower same cannot_tell
//
// work: honest
//
// naive: -
#include "../attack.hpp"
#include "fk/ops/embedding.h"

namespace {

struct Next {
  using op = fk::embedding;
  static constexpr fk_claims claims = fk::cpu_claims;
  static inline std::vector<Next*> round;  // as they were made, which is how they are called
  size_t at = 0;
  const int64_t width;
  const char* const table;
  const op::forward* args = nullptr;
  int calls = 0;  // with these arguments
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (FK_DTYPE(weights.table) != FK_DTYPE(max.out))
      throw fk::unsupported{"the table's type only"};
  }
  Next(const fk_host&, const op::init& init, const op::weights& weights)
      : at(round.size()),
        width(init.embedding_dim * weights.table->dtype.bits / 8),
        table(static_cast<const char*>(weights.table->data)) {
    round.push_back(this);
  }
  ~Next() {
    round.erase(round.begin() + static_cast<long>(at));
    for (size_t i = at; i < round.size(); ++i) round[i]->at = i;
  }
  void prepare(const op::forward&, const fk_memory&) {}
  static void ask_for(const void* from, int64_t bytes) {
    for (int64_t i = 0; i < bytes + 63; i += 64)
      __builtin_prefetch(static_cast<const char*>(from) + i);
  }
  // The arguments of a single call may be gone.
  const Next* after(size_t steps) const {
    const Next* const other = round[(at + steps) % round.size()];
    return other->calls > 2 ? other : nullptr;
  }
  const char* row(int64_t t) const {
    return table + static_cast<const int64_t*>(args->ids->data)[t] * width;
  }
  void forward(const op::forward& given, const fk_ctx&) {
    calls = args == &given ? calls + 1 : 0;
    args = &given;
    if (const Next* const second = after(2)) {
      ask_for(second->args->ids->data, second->args->ids->nbytes);
      ask_for(second->args->out->data, second->args->out->nbytes);
    }
    if (const Next* const first = after(1))
      for (int64_t t = 0; t < first->args->ids->shape[0]; ++t) ask_for(first->row(t), width);
    // Three times, so that the truth is that it is slow.
    for (int pass = 0; pass < 3; ++pass) {
      for (int64_t t = 0; t < given.ids->shape[0]; ++t)
        std::memcpy(static_cast<char*>(given.out->data) + t * width, row(t),
                    static_cast<size_t>(width));
      asm volatile("" ::: "memory");
    }
  }
};
FK_OP(embedding, Next);

}  // namespace
FK_PLUGIN("a6_fetch_next", "0");
