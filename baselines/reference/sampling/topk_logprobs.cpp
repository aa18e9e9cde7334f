// SPDX-License-Identifier: Apache-2.0
// topk_logprobs: sorts the indices of each row's largest logits to the front, and gives their log
// probabilities.
#include <numeric>

#include "fk/ops/topk_logprobs.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct TopkLogprobs : Base<topk_logprobs> {
  using Base::Base;
  struct Rows {
    double* logits;
    int64_t* order;
    Rows(Scratch& s, const op::init& i)
        : logits(s.take(i.vocab_size)), order(reinterpret_cast<int64_t*>(s.take(i.vocab_size))) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.logits);
    if (init.top_k > init.vocab_size) throw unsupported{"top_k exceeds the vocabulary"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const int64_t size = init.vocab_size, count = init.top_k;
    const int64_t* offsets = data<int64_t>(weights.offsets);
    for (int64_t b = 0; b < args.logits->shape[0]; ++b) {
      load(args.logits, offset(args.logits, b), size, row.logits);
      std::iota(row.order, row.order + size, int64_t{0});
      std::partial_sort(row.order, row.order + count, row.order + size, [&](int64_t x, int64_t y) {
        return row.logits[x] != row.logits[y] ? row.logits[x] > row.logits[y] : x < y;
      });
      const double top = row.logits[row.order[0]];
      double sum = 0;
      for (int64_t v = 0; v < size; ++v) sum += std::exp(row.logits[v] - top);
      for (int64_t k = 0; k < count; ++k) {
        const int64_t i = row.order[k];
        data<int64_t>(args.tokens)[b * count + k] = i + (offsets ? offsets[i] : 0);
        data<float>(args.logprobs)[b * count + k] =
            static_cast<float>(row.logits[i] - top - std::log(sum));
      }
    }
  }
};
FK_OP(topk_logprobs, TopkLogprobs);

}  // namespace
}  // namespace fk::reference
