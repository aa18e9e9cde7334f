// SPDX-License-Identifier: Apache-2.0
// Self-attention over the KV page cache, in two passes over the tokens. The first stores k and v of
// all tokens in the cache. The second reads the cache, where a token may see a later one of the
// batch. Some layers have more fields than others, such as rotation, norms of q and k, a window, a
// tree or sinks. `requires` finds them by name at compile time.
#pragma once
#include "op.hpp"

namespace fk::reference {

// Number of key/value heads; as many as query heads where the op has no such field.
template <class Init>
int64_t kv_heads_of(const Init& init) {
  if constexpr (requires { init.num_kv_heads; })
    return init.num_kv_heads;
  else
    return init.num_heads;
}

// Rows of scratch (op.hpp) for Decoder.
struct DecoderRows {
  double *x, *qkv, *row, *scores, *mixed, *queries;  // queries: of all tokens
  int64_t* seen;                                     // positions that a token of a tree sees
  template <class Init, class Forward>
  DecoderRows(Scratch& s, const Init& i, const Forward& args)
      : x(s.take(i.hidden_size)),
        qkv(s.take((i.num_heads + 2 * kv_heads_of(i)) * i.head_dim)),
        row(s.take(std::max(i.hidden_size, i.head_dim))),
        scores(s.take(args.block_tables->shape[1] * i.page_size)),
        mixed(s.take(i.num_heads * i.head_dim)),
        queries(s.take(args.slot_mapping->shape[0] * i.num_heads * i.head_dim)),
        seen(reinterpret_cast<int64_t*>(s.take(args.block_tables->shape[1] * i.page_size))) {}
};

// Refuses dtypes and numbers of heads that Decoder does not take.
template <class Init, class Weights, class Forward>
void need_decoder(const Init& init, const Weights& weights, const Forward& max) {
  need_floats(weights.qkv, weights.qkv_bias.or_null, weights.o, max.k_cache, max.v_cache);
  if constexpr (requires { weights.o_bias; }) need_floats(weights.o_bias.or_null);
  if constexpr (requires { weights.q_norm; })
    need_floats(weights.q_norm.or_null, weights.k_norm.or_null);
  if (init.num_heads % kv_heads_of(init))
    throw unsupported{"num_heads is not a multiple of num_kv_heads"};
}

// The two passes of one call.
template <class Init, class Weights, class Forward>
struct Decoder {
  const Init& init;
  const Weights& weights;
  const Forward& args;
  const DecoderRows& rows;

  int64_t tokens() const { return args.slot_mapping->shape[0]; }
  double* queries(int64_t t) const { return rows.queries + t * init.num_heads * init.head_dim; }

  // First pass. Computes q, k and v of token t from x, which is as wide as the projection. Keeps q
  // in scratch and stores k and v in the cache.
  void project(int64_t t, const double* x) const {
    const int64_t heads = init.num_heads, kv_heads = kv_heads_of(init), width = init.head_dim;
    matrix_vector(weights.qkv, 0, (heads + 2 * kv_heads) * width, weights.qkv->shape[1],
                  weights.qkv_bias.or_null, x, rows.qkv);
    for (int64_t h = 0; h < heads + kv_heads; ++h) {
      double* head = rows.qkv + h * width;
      if constexpr (requires { weights.q_norm; }) {
        const fk_in* norm = h < heads ? weights.q_norm.or_null : weights.k_norm.or_null;
        if (norm) rms_normalize(head, width, init.eps, norm, rows.row);
      }
      if constexpr (requires { weights.cos_sin_cache; }) {
        const fk_in* cache = weights.cos_sin_cache;
        rotate(head, init.rotary_dim, false,
               data<float>(cache) + offset(cache, index<int64_t>(args.positions, t)));
      }
    }
    std::copy_n(rows.qkv, heads * width, queries(t));
    const int64_t slot = index<int64_t>(args.slot_mapping, t);
    if (slot < 0) return;
    for (int64_t g = 0; g < kv_heads; ++g) {
      const double* k = rows.qkv + (heads + g) * width;
      put_slot(args.k_cache, slot, g, k);
      put_slot(args.v_cache, slot, g, k + kv_heads * width);
    }
  }

  // Second pass: calls then(t, attended[C]) for every token. `attended` is attention after its
  // output projection.
  template <class Then>
  void attend(double* attended, Then then) const {
    for (int64_t b = 0; b < args.block_tables->shape[0]; ++b) {
      const int64_t first = index<int32_t>(args.cu_seqlens, b);
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      const int64_t length = index<int32_t>(args.seq_lens, b);
      const PagedRequest request{fk_as_in(args.k_cache), fk_as_in(args.v_cache),
                                 data<int32_t>(args.block_tables) + offset(args.block_tables, b),
                                 init.page_size};
      for (int64_t t = first; t < last; ++t) {
        if (const fk_in* mask = tree_mask()) {
          const TreeOf tree{length, tree_length(b)};
          const int64_t count = tree.seen(data<int32_t>(mask) + offset(mask, t), rows.seen);
          mix(
              [&](const double* q, int64_t h, int64_t kv_head, double* out) {
                request.attend_to(attention(h), q, kv_head, init.head_dim, rows.seen, count,
                                  rows.scores, out);
              },
              t);
        } else {
          mix(
              [&](const double* q, int64_t h, int64_t kv_head, double* out) {
                request.attend(attention(h), q, kv_head, init.head_dim, length - last + t, window(),
                               rows.scores, out);
              },
              t);
        }
        matrix_vector(weights.o, 0, init.hidden_size, init.num_heads * init.head_dim, o_bias(),
                      rows.mixed, attended);
        then(t, attended);
      }
    }
  }

 private:
  // Stores a head's row in a slot: entry slot % page_size of page slot / page_size.
  void put_slot(const fk_inout* cache, int64_t slot, int64_t head, const double* from) const {
    store(cache, offset(cache, slot / init.page_size, slot % init.page_size, head), init.head_dim,
          from);
  }
  const fk_in* tree_mask() const {
    if constexpr (requires { args.tree_mask; }) return args.tree_mask.or_null;
    return nullptr;
  }
  int64_t tree_length(int64_t b) const {
    if constexpr (requires { args.tree_lens; }) return index<int32_t>(args.tree_lens.or_null, b);
    return 0;
  }
  const fk_in* o_bias() const {
    if constexpr (requires { weights.o_bias; }) return weights.o_bias.or_null;
    return nullptr;
  }
  int64_t window() const {
    if constexpr (requires { init.window; }) return init.window;
    return 0;
  }
  Attention attention(int64_t h) const {
    const float* sinks = nullptr;
    if constexpr (requires { weights.sinks; }) sinks = data<float>(weights.sinks);
    return {init.scale, 0, sinks ? sinks + h : nullptr};
  }
  // Calls one(q[D], head, key/value head, out[D]) for every head of token t.
  template <class OneHead>
  void mix(OneHead one, int64_t t) const {
    for (int64_t h = 0; h < init.num_heads; ++h) {
      one(queries(t) + h * init.head_dim, h, h / (init.num_heads / kv_heads_of(init)),
          rows.mixed + h * init.head_dim);
    }
  }
};

// The base of ops that are self-attention alone, over x [T,C].
template <class Op>
struct SelfAttentionOf : Base<Op> {
  using Base<Op>::Base, Base<Op>::init, Base<Op>::weights;
  using Forward = typename Op::forward;
  struct Rows {
    DecoderRows decoder;
    double* out;
    Rows(Scratch& s, const typename Op::init& i, const Forward& args)
        : decoder(s, i, args), out(s.take(i.hidden_size)) {}
  };
  static void supports(const typename Op::init& init, const typename Op::weights& weights,
                       const Forward& max, fk_need& need) {
    need_floats(max.x, max.out);
    need_decoder(init, weights, max);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const Forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const Decoder<typename Op::init, typename Op::weights, Forward> decoder{init, weights, args,
                                                                            rows.decoder};
    for (int64_t t = 0; t < decoder.tokens(); ++t) {
      load(args.x, offset(args.x, t), init.hidden_size, rows.decoder.x);
      decoder.project(t, rows.decoder.x);
    }
    decoder.attend(rows.out, [&](int64_t t, const double* attended) {
      store(args.out, offset(args.out, t), init.hidden_size, attended);
    });
  }
};

// A whole layer. feed_forward(x[C], out[C]) is its second half. Both passes read the residual and
// the hidden state, so a token's are written only at the end of its second pass. `decoder` has
// init, weights, args, rows, tokens(), project() and attend() as Decoder has.
template <class AnyDecoder, class FeedForward>
void decoder_layer_tokens(const AnyDecoder& decoder, double* out, FeedForward feed_forward) {
  const auto& [init, weights, args, rows] = decoder;
  const int64_t channels = init.hidden_size;
  // Loads hidden + residual of token t into rows.x.
  const auto sum = [&](int64_t t) {
    load(args.hidden, offset(args.hidden, t), channels, rows.x);
    add_scaled(args.residual, offset(args.residual, t), channels, 1, rows.x);
  };
  for (int64_t t = 0; t < decoder.tokens(); ++t) {
    sum(t);
    rms_normalize(rows.x, channels, init.eps, weights.input_norm, rows.row);
    decoder.project(t, rows.x);
  }
  decoder.attend(out, [&](int64_t t, const double* attended) {
    sum(t);
    for (int64_t c = 0; c < channels; ++c) rows.x[c] += attended[c];
    store(args.residual, offset(args.residual, t), channels, rows.x);
    rms_normalize(rows.x, channels, init.eps, weights.post_norm, rows.row);
    feed_forward(rows.x, out);
    store(args.hidden, offset(args.hidden, t), channels, out);
  });
}

}  // namespace fk::reference
