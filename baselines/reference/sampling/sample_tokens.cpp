// SPDX-License-Identifier: Apache-2.0
// sample_tokens: a full sort of every row, then prefixes of it.
#include <numeric>

#include "fk/ops/sample_tokens.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct SampleTokens : Base<sample_tokens> {
  using Base::Base;
  struct Rows {
    double *logits, *mass;
    int64_t* order;
    Rows(Scratch& s, const op::init& i)
        : logits(s.take(i.vocab_size)),
          mass(s.take(i.vocab_size)),
          order(reinterpret_cast<int64_t*>(s.take(i.vocab_size))) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.logits);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t b = 0; b < args.logits->shape[0]; ++b) {
      load(args.logits, offset(args.logits, b), init.vocab_size, row.logits);
      const auto number = [&](const fk_in* view) { return value(data<float>(view)[b]); };
      data<int64_t>(args.tokens)[b] =
          pick(row, number(args.temperature), index<int32_t>(args.top_k, b), number(args.top_p),
               number(args.uniform));
    }
  }

 private:
  int64_t pick(const Rows& row, double temperature, int64_t top_k, double top_p,
               double uniform) const {
    const int64_t size = init.vocab_size;
    const double* top = std::max_element(row.logits, row.logits + size);
    if (temperature <= 0) return top - row.logits;
    std::iota(row.order, row.order + size, int64_t{0});
    std::sort(row.order, row.order + size, [&](int64_t a, int64_t b) {
      return row.logits[a] != row.logits[b] ? row.logits[a] > row.logits[b] : a < b;
    });
    int64_t kept = top_k > 0 ? std::min(top_k, size) : size;
    for (int64_t i = 0; i < kept; ++i)
      row.mass[i] = std::exp((row.logits[row.order[i]] - *top) / temperature);
    if (top_p < 1) kept = prefix(row.mass, kept, top_p) + 1;
    return row.order[prefix(row.mass, kept, uniform, true)];
  }

  // The first of `count` masses at which the running share of their sum reaches (or exceeds)
  // `share`; the last one if none does.
  static int64_t prefix(const double* mass, int64_t count, double share, bool exceed = false) {
    const double wanted = share * std::accumulate(mass, mass + count, 0.0);
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      sum += mass[i];
      if (exceed ? sum > wanted : sum >= wanted) return i;
    }
    return count - 1;
  }
};
FK_OP(sample_tokens, SampleTokens);

}  // namespace
}  // namespace fk::reference
