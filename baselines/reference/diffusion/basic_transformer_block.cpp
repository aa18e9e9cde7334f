// SPDX-License-Identifier: Apache-2.0
// basic_transformer_block: two attentions and an MLP (context.hpp), each behind a norm, image by
// image.
#include "fk/ops/basic_transformer_block.h"
#include "context.hpp"
#include "op.hpp"

namespace fk::reference {
namespace {

struct BasicTransformerBlock : Base<basic_transformer_block> {
  using Base::Base;
  static ContextAttention over_itself(const op::init& i, const op::weights& w) {
    return {i.hidden_size, i.hidden_size, i.num_heads, i.head_dim, i.scale,       w.attn1_q,
            nullptr,       w.attn1_kv,    nullptr,     w.attn1_o,  w.attn1_o_bias};
  }
  static ContextAttention over_context(const op::init& i, const op::weights& w) {
    return {i.hidden_size, i.context_size, i.num_heads, i.head_dim, i.scale,       w.attn2_q,
            nullptr,       w.attn2_kv,     nullptr,     w.attn2_o,  w.attn2_o_bias};
  }
  struct Rows {
    double *x, *normed, *context, *attention, *hidden, *row;
    Rows(Scratch& s, const op::init& i, const op::forward& args, const ContextAttention& a)
        : x(s.take(args.x->shape[1] * i.hidden_size)),
          normed(s.take(args.x->shape[1] * i.hidden_size)),
          context(s.take(args.context->shape[1] * i.context_size)),
          attention(s.take(a.scratch(std::max(args.x->shape[1], args.context->shape[1])))),
          hidden(s.take(2 * i.intermediate_size)),
          row(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.norm1_weight, w.norm1_bias, w.attn1_q, w.attn1_kv, w.attn1_o, w.attn1_o_bias,
                w.norm2_weight, w.norm2_bias, w.attn2_q, w.attn2_kv, w.attn2_o, w.attn2_o_bias,
                w.norm3_weight, w.norm3_bias, w.fc1, w.fc1_bias, w.fc2, w.fc2_bias, max.x,
                max.context, max.out);
    need.scratch = scratch_bytes<Rows>(init, max, over_context(init, w));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args, over_context(init, weights));
    const int64_t tokens = args.x->shape[1], keys = args.context->shape[1],
                  channels = init.hidden_size;
    const GegluWeights mlp{channels,
                           init.intermediate_size,
                           init.kind == FK_BASIC_TRANSFORMER_BLOCK_KIND_GELU_TANH,
                           weights.fc1,
                           weights.fc1_bias,
                           weights.fc2,
                           weights.fc2_bias};
    const auto add = [&](int64_t t, const double* y) {
      for (int64_t c = 0; c < channels; ++c) rows.x[t * channels + c] += y[c];
    };
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load(args.x, offset(args.x, b), tokens * channels, rows.x);
      load(args.context, offset(args.context, b), keys * init.context_size, rows.context);
      norm(rows, tokens, weights.norm1_weight, weights.norm1_bias);
      over_itself(init, weights)(rows.normed, tokens, rows.normed, tokens, rows.attention, rows.row,
                                 add);
      norm(rows, tokens, weights.norm2_weight, weights.norm2_bias);
      over_context(init, weights)(rows.normed, tokens, rows.context, keys, rows.attention, rows.row,
                                  add);
      norm(rows, tokens, weights.norm3_weight, weights.norm3_bias);
      for (int64_t t = 0; t < tokens; ++t) {
        mlp(rows.normed + t * channels, rows.hidden, rows.row);
        add(t, rows.row);
      }
      store(args.out, offset(args.out, b), tokens * channels, rows.x);
    }
  }

 private:
  void norm(const Rows& rows, int64_t tokens, const fk_in* weight, const fk_in* bias) const {
    std::copy_n(rows.x, tokens * init.hidden_size, rows.normed);
    for (int64_t t = 0; t < tokens; ++t)
      layer_normalize(rows.normed + t * init.hidden_size, init.hidden_size, init.eps, weight, bias,
                      rows.row);
  }
};
FK_OP(basic_transformer_block, BasicTransformerBlock);

}  // namespace
}  // namespace fk::reference
