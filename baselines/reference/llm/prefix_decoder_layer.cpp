// SPDX-License-Identifier: Apache-2.0
// prefix_decoder_layer: attention over kept keys and over all tokens of a request, and a gated MLP,
// each behind an RMSNorm, request by request.
#include "fk/ops/prefix_decoder_layer.h"
#include "context.hpp"
#include "vit.hpp"

namespace fk::reference {
namespace {

struct PrefixDecoderLayer : Base<prefix_decoder_layer> {
  using Base::Base;
  struct Rows {
    double *x, *row, *norm, *out, *qkv, *cos, *sin, *turned, *kept, *scores, *mask, *mixed, *hidden;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : x(s.take(i.hidden_size)),
          row(s.take(i.hidden_size)),
          norm(s.take(i.hidden_size)),
          out(s.take(i.hidden_size)),
          qkv(s.take(args.x->shape[1] * stride(i))),
          cos(s.take(i.head_dim)),
          sin(s.take(i.head_dim)),
          turned(s.take(i.head_dim)),
          kept(s.take(2 * i.past_tokens * i.num_kv_heads * i.head_dim)),
          scores(s.take(i.past_tokens + args.x->shape[1])),
          mask(s.take(i.past_tokens + args.x->shape[1])),
          mixed(s.take(i.num_heads * i.head_dim)),
          hidden(s.take(2 * i.intermediate_size)) {}
  };
  static int64_t stride(const op::init& i) {
    return (i.num_heads + 2 * i.num_kv_heads) * i.head_dim;
  }
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    if (init.head_dim % 2) throw unsupported{"head_dim: odd"};
    if (init.num_heads % init.num_kv_heads)
      throw unsupported{"num_heads: no multiple of num_kv_heads"};
    if ((init.past_tokens > 0) != (max.past_keys.or_null != nullptr))
      throw unsupported{"past_tokens: without past_keys, or the other way round"};
    need_floats(w.input_norm, w.qkv, w.o, w.post_norm, w.gate_up, w.down, max.x,
                max.past_keys.or_null, max.past_values.or_null, max.mask.or_null, max.out, max.keys,
                max.values);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t tokens = args.x->shape[1], channels = init.hidden_size;
    const GegluWeights mlp{channels, init.intermediate_size, true,   weights.gate_up,
                           nullptr,  weights.down,           nullptr};
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load_kept(args, b, rows);
      for (int64_t t = 0; t < tokens; ++t) project(args, b, t, rows);
      for (int64_t t = 0; t < tokens; ++t) {
        attend(args, b, t, rows);
        load(args.x, offset(args.x, b, t), channels, rows.x);
        for (int64_t c = 0; c < channels; ++c) rows.x[c] += rows.out[c];
        std::copy_n(rows.x, channels, rows.row);
        rms_normalize(rows.row, channels, init.eps, weights.post_norm, rows.norm);
        mlp(rows.row, rows.hidden, rows.out);
        for (int64_t c = 0; c < channels; ++c) rows.x[c] += rows.out[c];
        store(args.out, offset(args.out, b, t), channels, rows.x);
      }
    }
  }

 private:
  int64_t kv_width() const { return init.num_kv_heads * init.head_dim; }

  void load_kept(const op::forward& args, int64_t b, const Rows& rows) const {
    if (init.past_tokens == 0) return;
    const int64_t count = init.past_tokens * kv_width();
    load(args.past_keys.or_null, offset(args.past_keys.or_null, b), count, rows.kept);
    load(args.past_values.or_null, offset(args.past_values.or_null, b), count, rows.kept + count);
  }

  // Queries, keys and values of a token; the new keys and values are outputs.
  void project(const op::forward& args, int64_t b, int64_t t, const Rows& rows) const {
    const int64_t width = init.head_dim, channels = init.hidden_size;
    double* qkv = rows.qkv + t * stride(init);
    load(args.x, offset(args.x, b, t), channels, rows.row);
    rms_normalize(rows.row, channels, init.eps, weights.input_norm, rows.norm);
    matrix_vector(weights.qkv, 0, stride(init), channels, nullptr, rows.row, qkv);
    const int64_t place = (b * args.x->shape[1] + t) % args.cos->shape[0];
    load(args.cos, offset(args.cos, place), width, rows.cos);
    load(args.sin, offset(args.sin, place), width, rows.sin);
    for (int64_t h = 0; h < init.num_heads + init.num_kv_heads; ++h)
      turn(qkv + h * width, width, false, rows.cos, rows.sin, rows.turned);
    const double* keys = qkv + init.num_heads * width;
    store(args.keys, offset(args.keys, b, t), kv_width(), keys);
    store(args.values, offset(args.values, b, t), kv_width(), keys + kv_width());
  }

  // rows.out = the projected attention of a token.
  void attend(const op::forward& args, int64_t b, int64_t t, const Rows& rows) const {
    const int64_t width = init.head_dim, past = init.past_tokens, all = past + args.x->shape[1];
    std::fill_n(rows.mask, all, 0.0);
    if (const fk_in* mask = args.mask.or_null)
      load(mask, offset(mask, b % mask->shape[0], t % mask->shape[1]), all, rows.mask);
    std::fill_n(rows.mixed, init.num_heads * width, 0.0);
    // Key j, or its value, of a head.
    const auto seen = [&](int64_t j, int64_t group, bool value) {
      if (j < past)
        return rows.kept + (value ? past * kv_width() : 0) + j * kv_width() + group * width;
      return rows.qkv + (j - past) * stride(init) +
             (init.num_heads + (value ? init.num_kv_heads : 0) + group) * width;
    };
    for (int64_t h = 0; h < init.num_heads; ++h) {
      const int64_t group = h / (init.num_heads / init.num_kv_heads);
      const double* q = rows.qkv + t * stride(init) + h * width;
      Attention{}(
          0, all, rows.scores,
          [&](int64_t j) {
            const double* k = seen(j, group, false);
            double dot = 0;
            for (int64_t d = 0; d < width; ++d) dot += q[d] * k[d];
            return init.scale * dot + rows.mask[j];
          },
          [&](int64_t j, double p) {
            const double* v = seen(j, group, true);
            for (int64_t d = 0; d < width; ++d) rows.mixed[h * width + d] += p * v[d];
          });
    }
    matrix_vector(weights.o, 0, init.hidden_size, init.num_heads * width, nullptr, rows.mixed,
                  rows.out);
  }
};
FK_OP(prefix_decoder_layer, PrefixDecoderLayer);

}  // namespace
}  // namespace fk::reference
