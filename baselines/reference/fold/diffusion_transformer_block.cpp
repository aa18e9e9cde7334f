// SPDX-License-Identifier: Apache-2.0
// diffusion_transformer_block: that of modulated.hpp; all tokens see all.
#include "fk/ops/diffusion_transformer_block.h"

#include "modulated.hpp"

namespace fk::reference {
namespace {

struct DiffusionTransformerBlock : Base<diffusion_transformer_block> {
  using Base::Base;
  using Block = ModulatedBlock<op::init, op::weights>;
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.a_norm, w.q, max.x, max.s, max.z, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows r(scratch, init, args);
    const Block block{init, weights};
    const int64_t tokens = args.x->shape[0];
    load(args.x, 0, tokens * init.hidden_size, r.x);
    load(args.s, 0, tokens * init.cond_size, r.s);
    block.project(tokens, block.before_attention(), r);
    for (int64_t t = 0; t < tokens; ++t)
      block.update(
          t, t, tokens, [](int64_t j) { return j; }, args.z, t * tokens, r);
    store(args.out, 0, tokens * init.hidden_size, r.x);
  }

 private:
  struct Rows : Block::Rows {
    Rows(Scratch& scratch, const op::init& i, const op::forward& args)
        : Block::Rows(scratch, i, args.x->shape[0], args.x->shape[0]) {}
  };
};
FK_OP(diffusion_transformer_block, DiffusionTransformerBlock);

}  // namespace
}  // namespace fk::reference
