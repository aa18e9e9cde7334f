// SPDX-License-Identifier: Apache-2.0
// rotary_embedding: rotates the first rotary_dim channels of every head of q and k, in place
// (rotate() in math.hpp).
#include "fk/ops/rotary_embedding.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct RotaryEmbedding : Base<rotary_embedding> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.q, max.k);
    need.scratch = init.rotary_dim * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* head = Scratch(ctx).take(init.rotary_dim);
    turn(args.q, args.positions, head);
    turn(args.k, args.positions, head);
  }

 private:
  void turn(const fk_inout* x, const fk_in* positions, double* head) const {
    const fk_in* cache = weights.cos_sin_cache;
    for (int64_t t = 0; t < x->shape[0]; ++t) {
      const float* table = data<float>(cache) + offset(cache, index<int64_t>(positions, t));
      for (int64_t h = 0; h < x->shape[1]; ++h) {
        load(x, offset(x, t, h), init.rotary_dim, head);
        rotate(head, init.rotary_dim, init.interleaved, table);
        store(x, offset(x, t, h), init.rotary_dim, head);
      }
    }
  }
};
FK_OP(rotary_embedding, RotaryEmbedding);

}  // namespace
}  // namespace fk::reference
