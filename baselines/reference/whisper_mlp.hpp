// SPDX-License-Identifier: Apache-2.0
// The second half of a layer of Whisper: x + mlp(norm(x)), with a layer norm before the MLP.
#pragma once
#include "op.hpp"

namespace fk::reference {

// Rows of scratch (op.hpp) for whisper_mlp().
struct WhisperMlpRows {
  double *normed, *hidden, *row;
  template <class Init>
  WhisperMlpRows(Scratch& s, const Init& i)
      : normed(s.take(i.hidden_size)),
        hidden(s.take(i.intermediate_size)),
        row(s.take(i.hidden_size)) {}
};

// Refuses dtypes of a layer's weights that the ops here do not take.
template <class Weights>
void need_whisper_layer(const Weights& w) {
  need_floats(w.qkv, w.qkv_bias.or_null, w.o, w.o_bias.or_null, w.attn_norm_weight,
              w.attn_norm_bias, w.fc1, w.fc1_bias.or_null, w.fc2, w.fc2_bias.or_null,
              w.mlp_norm_weight, w.mlp_norm_bias);
}

// Computes out[C] from x[C]; both may be one array.
template <class Init, class Weights>
void whisper_mlp(const Init& init, const Weights& w, bool tanh_form, const double* x,
                 const WhisperMlpRows& rows, double* out) {
  const int64_t channels = init.hidden_size, width = init.intermediate_size;
  std::copy_n(x, channels, rows.normed);
  layer_normalize(rows.normed, channels, init.eps, w.mlp_norm_weight, w.mlp_norm_bias, rows.row);
  matrix_vector(w.fc1, 0, width, channels, w.fc1_bias.or_null, rows.normed, rows.hidden);
  for (int64_t f = 0; f < width; ++f) rows.hidden[f] = gelu(rows.hidden[f], tanh_form);
  matrix_vector(w.fc2, 0, channels, width, w.fc2_bias.or_null, rows.hidden, rows.normed);
  for (int64_t c = 0; c < channels; ++c) out[c] = x[c] + rows.normed[c];
}

}  // namespace fk::reference
