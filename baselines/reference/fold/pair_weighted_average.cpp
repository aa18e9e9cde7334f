// SPDX-License-Identifier: Apache-2.0
// pair_weighted_average: weights of all heads first, then sequence by sequence.
#include "fk/ops/pair_weighted_average.h"

#include "fold.hpp"

namespace fk::reference {
namespace {

struct PairWeightedAverage : Base<pair_weighted_average> {
  using Base::Base;
  struct Rows {
    double *z, *bias, *m, *vg, *scores, *mixed, *out, *row;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : z(s.take(i.pair_size)),
          bias(s.take(args.z->shape[0] * args.z->shape[0] * i.num_heads)),
          m(s.take(i.hidden_size)),
          vg(s.take(args.z->shape[0] * 2 * i.num_heads * i.head_dim)),
          scores(s.take(args.z->shape[0])),
          mixed(s.take(i.num_heads * i.head_dim)),
          out(s.take(i.hidden_size)),
          row(s.take(std::max(i.hidden_size, i.pair_size))) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.norm, w.vg, max.m, max.z, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows r(scratch, init, args);
    const int64_t tokens = args.z->shape[0], heads = init.num_heads, all = heads * init.head_dim;
    for (int64_t pair = 0; pair < tokens * tokens; ++pair) {
      load(args.z, pair * init.pair_size, init.pair_size, r.z);
      layer_normalize(r.z, init.pair_size, init.eps, weights.norm_z, weights.norm_z_bias, r.row);
      matrix_vector(weights.bias_proj, 0, heads, init.pair_size, nullptr, r.z,
                    r.bias + pair * heads);
    }
    for (int64_t s = 0; s < args.m->shape[0]; ++s) {
      for (int64_t t = 0; t < tokens; ++t) {
        load(args.m, offset(args.m, s, t), init.hidden_size, r.m);
        layer_normalize(r.m, init.hidden_size, init.eps, weights.norm, weights.norm_bias, r.row);
        matrix_vector(weights.vg, 0, 2 * all, init.hidden_size, nullptr, r.m, r.vg + t * 2 * all);
      }
      for (int64_t t = 0; t < tokens; ++t) {
        average(t, tokens, r);
        for (int64_t d = 0; d < all; ++d) r.mixed[d] *= logistic(r.vg[t * 2 * all + all + d]);
        matrix_vector(weights.o, 0, init.hidden_size, all, nullptr, r.mixed, r.out);
        store(args.out, offset(args.out, s, t), init.hidden_size, r.out);
      }
    }
  }

 private:
  void average(int64_t t, int64_t tokens, const Rows& r) const {
    const int64_t heads = init.num_heads, width = init.head_dim, all = heads * width;
    std::fill_n(r.mixed, all, 0.0);
    for (int64_t h = 0; h < heads; ++h)
      Attention{}(
          0, tokens, r.scores, [&](int64_t k) { return r.bias[(t * tokens + k) * heads + h]; },
          [&](int64_t k, double p) {
            for (int64_t d = h * width; d < (h + 1) * width; ++d)
              r.mixed[d] += p * r.vg[k * 2 * all + d];
          });
  }
};
FK_OP(pair_weighted_average, PairWeightedAverage);

}  // namespace
}  // namespace fk::reference
