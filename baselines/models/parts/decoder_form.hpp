// SPDX-License-Identifier: Apache-2.0
// A decoder-only model as data: what a description (`decoder` of registry/models/llm/<arch>.yaml)
// and a configuration say together. registry/models/README.md has the grammar of descriptions.
#pragma once
#include <string>
#include <vector>

#include "baselines/models/parts/decoder.hpp"

namespace fk::parts {

struct DecoderForm {
  DecoderConfig base;

  // Norms. With `plus_one` they multiply by 1 + weight. A name is below a layer; empty: there is
  // none.
  enum class Norm { rms, layer };
  Norm norm = Norm::rms;
  bool plus_one = false, norm_weight = true, norm_bias = false;
  std::string before_attention, after_attention, before_mlp, after_mlp;
  // Attention and MLP see the same stream. Without before_mlp both see the same norm of it.
  bool parallel = false;

  // Attention. `head`: an RMS norm over every head; `full`: over all heads at once.
  enum class QkNorm { none, head, full };
  QkNorm qk_norm = QkNorm::none;
  bool o_bias = false;
  double attention_scale = 0, attention_cap = 0;
  bool interleaved = false;        // rope turns neighbours, not halves
  std::vector<Rope> ropes;         // different ones
  std::vector<int64_t> rope_of;    // by layer: which of them; -1: a layer does not rotate
  bool learned_positions = false;  // a table of positions is added to the embedding
  int64_t position_offset = 0;     // rows of it before position 0

  bool gated = true, mlp_bias = false;
  std::string activation = "silu";  // silu, gelu, gelu_tanh, relu, relu2

  double embedding_scale = 1, residual_scale = 1, logit_scale = 1, logit_cap = 0;

  // Checkpoint names below a layer, without ".weight". The others are in base.names.
  std::string position, o, q_norm, k_norm, down;
  std::vector<std::string> qkv, up;  // one fused, or the parts (gated: gate, up)
  // Rows of a fused qkv: `blocks` of q, k, v; `groups` of a key/value head with its queries before.
  bool qkv_in_groups = false;
  bool transposed = false;  // matrices of layers are [in, out]
  std::vector<std::string>
      buffers;  // tensors of a layer that old checkpoints have and nobody reads

  bool rotates(int64_t layer) const { return rope_of[static_cast<size_t>(layer)] >= 0; }
  // The index of the rope of a layer that rotates.
  size_t rope_at(int64_t layer) const {
    return static_cast<size_t>(rope_of[static_cast<size_t>(layer)]);
  }
  // True if each layer is one decoder_layer with Llama's checkpoint names.
  bool is_plain() const;
};

DecoderForm read_decoder_form(const Config& description, const Config& config);

// Records a phase, whole or one rank's part.
void record_decoder(Net& n, const std::string& phase, const DecoderForm& form);

}  // namespace fk::parts
