// SPDX-License-Identifier: Apache-2.0
// biased_attention: softmax attention of each query over all keys of its image, with biases and
// masks added to the scores.
#include "fk/ops/biased_attention.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct BiasedAttention : Base<biased_attention> {
  using Base::Base;
  struct Rows {
    double *q, *out, *scores, *bias, *mask;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : q(s.take(i.head_dim)),
          out(s.take(i.head_dim)),
          scores(s.take(args.k->shape[1])),
          bias(s.take(args.k->shape[1])),
          mask(s.take(args.k->shape[1])) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.q, max.k, max.v, max.bias.or_null, max.mask.or_null, max.out);
    if (init.num_heads % init.num_kv_heads)
      throw unsupported{"num_heads is not a multiple of num_kv_heads"};
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init, args);
    for (int64_t b = 0; b < args.q->shape[0]; ++b)
      for (int64_t m = 0; m < args.q->shape[1]; ++m)
        for (int64_t h = 0; h < init.num_heads; ++h) attend(args, b, m, h, row);
  }

 private:
  void attend(const op::forward& args, int64_t b, int64_t m, int64_t h, const Rows& row) const {
    const int64_t g = h / (init.num_heads / init.num_kv_heads), width = init.head_dim;
    const int64_t keys = args.k->shape[1];
    load(args.q, offset(args.q, b, m, h), width, row.q);
    std::fill_n(row.out, width, 0.0);
    std::fill_n(row.bias, keys, 0.0);
    if (const fk_in* bias = args.bias.or_null)
      load(bias, offset(bias, b % bias->shape[0], h, m), keys, row.bias);
    if (const fk_in* mask = args.mask.or_null) {
      load(mask, offset(mask, b % mask->shape[0], m % mask->shape[1]), keys, row.mask);
      for (int64_t j = 0; j < keys; ++j) row.bias[j] += row.mask[j];
    }
    double scale = init.scale;
    if (const fk_in* heads = args.head_scale.or_null) scale *= value(data<float>(heads)[h]);
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      row.scores[j] = scale * dot_view(args.k, offset(args.k, b, j, g), row.q, width) + row.bias[j];
      top = std::max(top, row.scores[j]);
    }
    if (top > -std::numeric_limits<double>::infinity()) {
      for (int64_t j = 0; j < keys; ++j) sum += row.scores[j] = std::exp(row.scores[j] - top);
      for (int64_t j = 0; j < keys; ++j)
        add_scaled(args.v, offset(args.v, b, j, g), width, row.scores[j] / sum, row.out);
    }
    store(args.out, offset(args.out, b, m, h), width, row.out);
  }
};
FK_OP(biased_attention, BiasedAttention);

}  // namespace
}  // namespace fk::reference
