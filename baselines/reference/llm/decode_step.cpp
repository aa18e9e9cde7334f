// SPDX-License-Identifier: Apache-2.0
// decode_step: embedding, all layers, the head and sampling. A layer is a decoder_layer
// (decoder.hpp) with the fields of layer k; between layers the hidden state is float32.
#define FK_DECODER_LAYER_EDITION 2  // with the fields that the contracts mark `since: 2`
#define FK_DECODE_STEP_EDITION 2
#include "fk/ops/decode_step.h"
#include "decoder.hpp"
#include "fk/ops/decoder_layer.h"
#include "sampling.hpp"

namespace fk::reference {
namespace {

struct DecodeStep : Base<decode_step> {
  using Base::Base;
  using Layer = decoder_layer;

  static Layer::init layer_init(const op::init& i, int64_t k) {
    return {i.hidden_size,    i.num_heads,  i.num_kv_heads,     i.head_dim,
            i.page_size,      i.rotary_dim, i.max_position,     i.scale,
            i.windows->at[k], i.eps,        i.intermediate_size};
  }
  static Layer::weights layer_weights(const op::weights& w, int64_t k) {
    const auto optional = [&](fk_opt_in_list list) {
      return fk_opt_in{list.or_null ? list.or_null->at[k] : nullptr};
    };
    return {w.input_norm->at[k], w.qkv->at[k],       optional(w.qkv_bias), w.o->at[k],
            optional(w.q_norm),  optional(w.k_norm), w.cos_sin_cache,      w.post_norm->at[k],
            w.gate_up->at[k],    w.down->at[k]};
  }
  // Frames of layer k as those of a decoder_layer.
  static Layer::forward layer_forward(const op::forward& args, int64_t k, const fk_inout* hidden,
                                      const fk_inout* residual) {
    return {args.positions,
            hidden,
            residual,
            args.k_cache->at[k],
            args.v_cache->at[k],
            args.block_tables,
            args.cu_seqlens,
            args.seq_lens,
            args.slot_mapping,
            /*max_query_len=*/1,
            args.max_seq_len,
            /*tree_lens=*/{},
            /*tree_mask=*/{}};
  }

  // Hidden state and residual as float32 views over scratch.
  struct State {
    fk_temp hidden, residual;
    State(Scratch& s, const op::init& i, const op::weights& w, const op::forward& args) {
      const int64_t shape[] = {args.ids->shape[0], i.hidden_size};
      for (fk_temp* temp : {&hidden, &residual}) {
        // A take counts doubles: two floats each.
        fk_temp_view(temp, w.embed_tokens, s.take((shape[0] * shape[1] + 1) / 2), 2, shape);
        temp->view.dtype = {2, 32, 1};  // float32
        temp->view.nbytes = shape[0] * shape[1] * 4;
      }
    }
  };
  struct Rows {
    State state;
    DecoderRows decoder;
    SampleRows sample;
    double *out, *hidden;
    Rows(Scratch& s, const op::init& i, const op::weights& w, const op::forward& args)
        : state(s, i, w, args),
          decoder(s, layer_init(i, 0), layer_forward(args, 0, nullptr, nullptr)),
          sample(s, i.vocab_size),
          out(s.take(i.hidden_size)),
          hidden(s.take(2 * i.intermediate_size)) {}
  };

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.embed_tokens, weights.norm, weights.lm_head, max.logits);
    for (int64_t k = 0; k < init.num_layers; ++k) {
      const Layer::weights w = layer_weights(weights, k);
      need_floats(w.input_norm, w.post_norm, w.gate_up, w.down);
      need_decoder(layer_init(init, k), w, layer_forward(max, k, nullptr, nullptr));
    }
    need.scratch = scratch_bytes<Rows>(init, weights, max);
  }

  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, weights, args);
    const fk_inout *hidden = &rows.state.hidden.view, *residual = &rows.state.residual.view;
    const int64_t channels = init.hidden_size, requests = args.ids->shape[0];
    std::fill_n(data<float>(residual), requests * channels, 0.f);
    for (int64_t b = 0; b < requests; ++b) {
      load(weights.embed_tokens, offset(weights.embed_tokens, index<int64_t>(args.ids, b)),
           channels, rows.out);
      store(hidden, offset(hidden, b), channels, rows.out);
    }
    for (int64_t k = 0; k < init.num_layers; ++k) layer(args, rows, k);
    for (int64_t b = 0; b < requests; ++b) {
      double* x = rows.decoder.x;
      load(hidden, offset(hidden, b), channels, x);
      add_scaled(residual, offset(residual, b), channels, 1, x);
      rms_normalize(x, channels, init.eps, weights.norm, rows.decoder.row);
      matrix_vector(weights.lm_head, 0, init.vocab_size, channels, nullptr, x, rows.sample.logits);
      store(args.logits, offset(args.logits, b), init.vocab_size, rows.sample.logits);
      sample_row(args, args.logits, b, rows.sample);
    }
  }

 private:
  void layer(const op::forward& args, const Rows& rows, int64_t k) const {
    const Layer::init i = layer_init(init, k);
    const Layer::weights w = layer_weights(weights, k);
    const Layer::forward f =
        layer_forward(args, k, &rows.state.hidden.view, &rows.state.residual.view);
    const Decoder<Layer::init, Layer::weights, Layer::forward> decoder{i, w, f, rows.decoder};
    decoder_layer_tokens(decoder, rows.out, [&](const double* x, double* out) {
      gated_mlp(w.gate_up, 0, w.down, 0, i.hidden_size, i.intermediate_size, x, rows.hidden, out);
    });
  }
};
FK_OP(decode_step, DecodeStep);

}  // namespace
}  // namespace fk::reference
