// SPDX-License-Identifier: Apache-2.0
// pair_block: update_pairs() of fold.hpp.
#include "fk/ops/pair_block.h"

#include "fold.hpp"

namespace fk::reference {
namespace {

struct PairBlock : Base<pair_block> {
  using Base::Base;
  struct Rows {
    double* z;
    PairRows rows;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : z(s.take(args.z->shape[0] * args.z->shape[0] * i.hidden_size)),
          rows(s, i, args.z->shape[0]) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.mul_out_norm, w.mul_out_ab, max.z, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows r(scratch, init, args);
    const int64_t tokens = args.z->shape[0], all = tokens * tokens * init.hidden_size;
    load(args.z, 0, all, r.z);
    update_pairs(init, weights, tokens, r.z, r.rows);
    store(args.out, 0, all, r.z);
  }
};
FK_OP(pair_block, PairBlock);

}  // namespace
}  // namespace fk::reference
