// SPDX-License-Identifier: Apache-2.0
// bert_embedding: the sum of a word's, a type's and a position's row, then a layer norm.
#include "fk/ops/bert_embedding.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct BertEmbedding : Base<bert_embedding> {
  using Base::Base;
  struct Rows {
    double *sum, *row;
    Rows(Scratch& s, const op::init& i) : sum(s.take(i.hidden_size)), row(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.word, w.position, w.type, w.norm_weight, w.norm_bias, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    const int64_t channels = init.hidden_size;
    const auto add_row = [&](const fk_in* table, const fk_in* ids, int64_t t) {
      add_scaled(table, offset(table, index<int64_t>(ids, t)), channels, 1, rows.sum);
    };
    for (int64_t t = 0; t < args.ids->shape[0]; ++t) {
      std::fill_n(rows.sum, channels, 0.0);
      add_row(weights.word, args.ids, t);
      add_row(weights.type, args.types, t);
      add_row(weights.position, args.positions, t);
      layer_normalize(rows.sum, channels, init.eps, weights.norm_weight, weights.norm_bias,
                      rows.row);
      store(args.out, offset(args.out, t), channels, rows.sum);
    }
  }
};
FK_OP(bert_embedding, BertEmbedding);

}  // namespace
}  // namespace fk::reference
