// SPDX-License-Identifier: Apache-2.0
// atom_transformer_block: that of modulated.hpp; an atom sees the keys of its window.
#include "fk/ops/atom_transformer_block.h"

#include "modulated.hpp"

namespace fk::reference {
namespace {

struct AtomTransformerBlock : Base<atom_transformer_block> {
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
    const int64_t queries = args.q_rows->shape[1], keys = args.k_rows->shape[1];
    block.project(tokens, {weights.k_norm, weights.k_gate, weights.k_gate_bias, weights.k_shift},
                  r);
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t place = data<int32_t>(args.places)[t];
      const int32_t* rows = data<int32_t>(args.k_rows) + place / queries * keys;
      block.update(
          t, data<int32_t>(args.q_rows)[place], keys, [&](int64_t j) { return int64_t{rows[j]}; },
          args.z, place * keys, r);
    }
    store(args.out, 0, tokens * init.hidden_size, r.x);
  }

 private:
  struct Rows : Block::Rows {
    Rows(Scratch& scratch, const op::init& i, const op::forward& args)
        : Block::Rows(scratch, i, args.x->shape[0], args.k_rows->shape[1]) {}
  };
};
FK_OP(atom_transformer_block, AtomTransformerBlock);

}  // namespace
}  // namespace fk::reference
