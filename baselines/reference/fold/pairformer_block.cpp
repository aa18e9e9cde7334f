// SPDX-License-Identifier: Apache-2.0
// pairformer_block: update_pairs() of fold.hpp, then attention and a transition of tokens.
#include "fk/ops/pairformer_block.h"

#include "fold.hpp"

namespace fk::reference {
namespace {

struct PairformerBlock : Base<pairformer_block> {
  using Base::Base;
  struct Rows {
    double *z, *s, *update;
    PairRows pairs;
    AttentionPairBias::Rows attention;
    Transition::Rows transition;
    Rows(Scratch& all, const op::init& i, const op::forward& args)
        : z(all.take(args.z->shape[0] * args.z->shape[0] * i.hidden_size)),
          s(all.take(args.z->shape[0] * i.single_size)),
          update(all.take(args.z->shape[0] * i.single_size)),
          pairs(all, i, args.z->shape[0]),
          attention(all, args.z->shape[0], i.single_size, i.hidden_size, i.single_heads,
                    i.single_head_dim),
          transition(all, i.single_size, i.single_intermediate_size) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.mul_out_norm, w.mul_out_ab, max.z, max.s, max.out_z, max.out_s);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows r(scratch, init, args);
    const op::weights& w = weights;
    const int64_t tokens = args.z->shape[0], pairs = tokens * tokens * init.hidden_size;
    const int64_t singles = tokens * init.single_size;
    load(args.z, 0, pairs, r.z);
    load(args.s, 0, singles, r.s);
    update_pairs(init, w, tokens, r.z, r.pairs);
    AttentionPairBias{tokens,
                      init.single_size,
                      init.hidden_size,
                      init.single_heads,
                      init.single_head_dim,
                      init.eps,
                      w.single_norm,
                      w.single_norm_bias,
                      w.single_norm_z,
                      w.single_norm_z_bias,
                      w.single_bias_proj,
                      w.single_q,
                      w.single_q_bias,
                      w.single_kvg,
                      w.single_o}(r.s, r.z, r.attention, r.update);
    accumulate(r.s, r.update, singles);
    Transition{init.single_size,         init.single_intermediate_size, init.eps,
               w.single_transition_norm, w.single_transition_norm_bias, w.single_transition_gate_up,
               w.single_transition_down}(r.s, tokens, r.transition);
    store(args.out_z, 0, pairs, r.z);
    store(args.out_s, 0, singles, r.s);
  }
};
FK_OP(pairformer_block, PairformerBlock);

}  // namespace
}  // namespace fk::reference
