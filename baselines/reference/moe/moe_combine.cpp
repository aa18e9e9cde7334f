// SPDX-License-Identifier: Apache-2.0
// moe_combine: returns the results of experts to the tokens' ranks. Every rank writes its results,
// in double, into the buffers of those ranks (Ranked in collective.hpp). Each rank then sums those
// of its tokens.
#include "fk/ops/moe_combine.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct MoeCombine : Ranked<moe_combine> {
  using Ranked::Ranked;
  struct Rows {
    double *sum, *weights;
    Rows(Scratch& s, const op::init& i) : sum(s.take(i.hidden_size)), weights(s.take(i.top_k)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_comm(init.comm);
    need_floats(max.x, max.topk_weights, max.out);
    if (max.out->shape[0] > init.max_tokens_per_rank)
      throw unsupported{"out: more rows than max_tokens_per_rank"};
    need.scratch = scratch_bytes<Rows>(init);
    need_buffer(init.comm, buffer_bytes(init), need);
  }
  // A rank's buffer: a row for each of its assignments.
  static int64_t buffer_bytes(const op::init& init) {
    return init.max_tokens_per_rank * init.top_k * init.hidden_size * 8;
  }
  void prepare(const op::forward&, const fk_memory& memory) {
    make_buffer(buffer_bytes(init), memory);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const ExpertRanks ranks(init);
    const int64_t channels = init.hidden_size, per_rank = ranks.most * ranks.top_k;
    const int64_t count = index<int32_t>(args.count, 0);
    before_writing();
    for (int64_t i = 0; i < count; ++i) {
      // `source` counts assignments over all ranks.
      const int64_t source = index<int32_t>(args.source, i);
      load(args.x, offset(args.x, i), channels,
           to(source / per_rank) + source % per_rank * channels);
    }
    deliver(ctx);
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const double* answers = mine<double>();
    for (int64_t t = 0; t < args.out->shape[0]; ++t) {
      load(args.topk_weights, offset(args.topk_weights, t), ranks.top_k, row.weights);
      std::fill_n(row.sum, channels, 0.0);
      for (int64_t k = 0; k < ranks.top_k; ++k)
        for (int64_t c = 0; c < channels; ++c)
          row.sum[c] += row.weights[k] * answers[(t * ranks.top_k + k) * channels + c];
      store(args.out, offset(args.out, t), channels, row.sum);
    }
    done(ctx);
  }
};
FK_OP(moe_combine, MoeCombine);

}  // namespace
}  // namespace fk::reference
