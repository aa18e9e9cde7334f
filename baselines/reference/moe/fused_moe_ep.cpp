// SPDX-License-Identifier: Apache-2.0
// fused_moe_ep: experts are spread over the ranks. Every rank shares its tokens, and every rank
// computes, in double, its own experts' part of all tokens. A token's rank then sums the parts of
// all ranks.
#include "fk/ops/fused_moe_ep.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct FusedMoeEp : Ranked<fused_moe_ep> {
  using Ranked::Ranked;
  struct Rows {
    double *sum, *hidden, *out;
    Rows(Scratch& s, const op::init& i)
        : sum(s.take(i.hidden_size)),
          hidden(s.take(2 * i.intermediate_size)),
          out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_comm(init.comm);
    need_floats(weights.w13, weights.w2, max.x, max.topk_weights, max.out);
    if (max.x->shape[0] > init.max_tokens_per_rank)
      throw unsupported{"x: more rows than max_tokens_per_rank"};
    need.scratch = scratch_bytes<Rows>(init);
    need_buffer(init.comm, (asked(init) + answered(init)) * 8, need);
  }
  // A rank's buffer, in doubles: its tokens, [1 + tokens * (C + 2 K)], then its experts' parts of
  // all ranks' tokens, [ranks, tokens, C]. The 1 is the number of tokens; K weights and K expert
  // numbers follow a token.
  static int64_t asked(const op::init& init) {
    return 1 + init.max_tokens_per_rank * (init.hidden_size + 2 * init.top_k);
  }
  static int64_t answered(const op::init& init) {
    return init.comm->size * init.max_tokens_per_rank * init.hidden_size;
  }
  void prepare(const op::forward&, const fk_memory& memory) {
    asked_ = asked(init);
    answered_ = answered(init);
    make_buffer((asked_ + answered_) * 8, memory);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const ExpertRanks ranks(init);
    const int64_t channels = init.hidden_size, tokens = args.x->shape[0];
    ask(args, ranks, tokens);
    share(ctx, asked_ * 8);
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t r = 0; r < ranks.ranks; ++r) answer(ranks, r, row);
    share(ctx, (asked_ + answered_) * 8);
    for (int64_t t = 0; t < tokens; ++t) {
      std::fill_n(row.sum, channels, 0.0);
      for (int64_t r = 0; r < ranks.ranks; ++r) {
        const double* share =
            shared_by<double>(r) + asked_ + (ranks.rank * ranks.most + t) * channels;
        for (int64_t c = 0; c < channels; ++c) row.sum[c] += share[c];
      }
      store(args.out, offset(args.out, t), channels, row.sum);
    }
    done(ctx);
  }

 private:
  int64_t stride() const { return init.hidden_size + 2 * init.top_k; }

  // Writes this rank's tokens into its buffer.
  void ask(const op::forward& args, const ExpertRanks& ranks, int64_t tokens) {
    double* mine = this->mine<double>();
    mine[0] = static_cast<double>(tokens);
    for (int64_t t = 0; t < tokens; ++t) {
      double* to = mine + 1 + t * stride();
      load(args.x, offset(args.x, t), init.hidden_size, to);
      load(args.topk_weights, offset(args.topk_weights, t), ranks.top_k, to + init.hidden_size);
      for (int64_t k = 0; k < ranks.top_k; ++k)
        to[init.hidden_size + ranks.top_k + k] =
            static_cast<double>(index<int32_t>(args.topk_ids, t * ranks.top_k + k));
    }
  }

  // Computes the part of this rank's experts for the tokens of rank `from`.
  void answer(const ExpertRanks& ranks, int64_t from, const Rows& row) {
    const double* theirs = shared_by<double>(from);
    const int64_t channels = init.hidden_size;
    for (int64_t t = 0; t < static_cast<int64_t>(theirs[0]); ++t) {
      const double* x = theirs + 1 + t * stride();
      double* share = mine<double>() + asked_ + (from * ranks.most + t) * channels;
      std::fill_n(share, channels, 0.0);
      for (int64_t k = 0; k < ranks.top_k; ++k) {
        const int64_t expert = ranks.local_of(static_cast<int32_t>(x[channels + ranks.top_k + k]));
        if (expert < 0) continue;
        gated_mlp(weights.w13, offset(weights.w13, expert), weights.w2, offset(weights.w2, expert),
                  channels, init.intermediate_size, x, row.hidden, row.out);
        for (int64_t c = 0; c < channels; ++c) share[c] += x[channels + k] * row.out[c];
      }
    }
  }
  int64_t asked_ = 0, answered_ = 0;  // in doubles
};
FK_OP(fused_moe_ep, FusedMoeEp);

}  // namespace
}  // namespace fk::reference
