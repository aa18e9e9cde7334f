// SPDX-License-Identifier: Apache-2.0
// outer_product_mean: the outer products of each pair, then a product.
#include "fk/ops/outer_product_mean.h"

#include "op.hpp"

namespace fk::reference {
namespace {

constexpr double kOneMore = 1e-3;  // beside the number of sequences

struct OuterProductMean : Base<outer_product_mean> {
  using Base::Base;
  struct Rows {
    double *m, *ab, *outer, *out, *row;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : m(s.take(i.hidden_size)),
          ab(s.take(args.m->shape[0] * args.m->shape[1] * 2 * i.intermediate_size)),
          outer(s.take(i.intermediate_size * i.intermediate_size)),
          out(s.take(i.pair_size)),
          row(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.norm, w.ab, max.m, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows r(scratch, init, args);
    const int64_t sequences = args.m->shape[0], tokens = args.m->shape[1];
    const int64_t hidden = init.intermediate_size;
    for (int64_t at = 0; at < sequences * tokens; ++at) {
      load(args.m, at * init.hidden_size, init.hidden_size, r.m);
      layer_normalize(r.m, init.hidden_size, init.eps, weights.norm, weights.norm_bias, r.row);
      matrix_vector(weights.ab, 0, 2 * hidden, init.hidden_size, nullptr, r.m,
                    r.ab + at * 2 * hidden);
    }
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t j = 0; j < tokens; ++j) {
        std::fill_n(r.outer, hidden * hidden, 0.0);
        for (int64_t s = 0; s < sequences; ++s) {
          const double* a = r.ab + (s * tokens + i) * 2 * hidden;
          const double* b = r.ab + (s * tokens + j) * 2 * hidden + hidden;
          for (int64_t c = 0; c < hidden; ++c)
            for (int64_t d = 0; d < hidden; ++d) r.outer[c * hidden + d] += a[c] * b[d];
        }
        matrix_vector(weights.o, 0, init.pair_size, hidden * hidden, weights.o_bias, r.outer,
                      r.out);
        for (int64_t c = 0; c < init.pair_size; ++c)
          r.out[c] /= static_cast<double>(sequences) + kOneMore;
        store(args.out, offset(args.out, i, j), init.pair_size, r.out);
      }
    }
  }
};
FK_OP(outer_product_mean, OuterProductMean);

}  // namespace
}  // namespace fk::reference
