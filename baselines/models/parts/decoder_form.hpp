// SPDX-License-Identifier: Apache-2.0
// A decoder-only model as data: a configuration, read by a description (`decoder` in
// registry/models/llm/<arch>.yaml). registry/models/README.md has the grammar of descriptions.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/fp8.hpp"
#include "baselines/models/parts/images.hpp"
#include "baselines/models/parts/speech/sounds.hpp"
#include "baselines/models/parts/text_vectors.hpp"
#include "core/engines/masked_diffusion/engine.hpp"

namespace fk::parts {

struct DecoderForm {
  DecoderConfig base;

  // Norms. With `plus_one` they multiply by 1 + weight. Names are below a layer's path. Empty: the
  // model lacks this norm.
  enum class Norm { rms, layer };
  Norm norm = Norm::rms;
  bool plus_one = false, norm_weight = true, norm_bias = false;
  std::string before_attention, after_attention, before_mlp, after_mlp;
  std::string after_experts;  // instead of after_mlp, in layers with experts
  // Norms before the last product of attention and of the MLP.
  std::string inside_attention, inside_mlp;
  // True: `after_attention` and `after_mlp` are norms of the sum of the residual stream and a
  // block.
  bool norms_after_sum = false;
  // Attention and MLP read the same residual stream. Without before_mlp both read the same norm of
  // it.
  bool parallel = false;
  // True for encoders: every token sees all others. They have no cache and no head.
  bool bidirectional = false;
  TextVectors vectors;
  int64_t pad_token = -1;          // not -1: positions count from it + 1
  std::vector<std::string> heads;  // tensors that nobody reads
  std::string embedding_norm;      // of the embeddings; empty: there is none
  bool first_layer_bare = false;   // without before_attention
  // Llama's layers without a causal mask and a cache: tokens are chosen in any order.
  std::optional<MaskedDiffusionOptions> diffusion;

  std::optional<VisionTower> vision;  // before it: prompts have images
  std::optional<SoundTower> sounds;   // with `vision`: prompts have sounds too
  // Most rows which images and sounds leave for a request.
  int64_t source_rows() const { return vision->rows() + (sounds ? sounds->rows() : 0); }

  // Norms of queries and keys. `head`: an RMS norm over every head. `head_after`: the same after
  // the rotation. `head_layer`: a layer norm over every head. `full`: an RMS norm over all heads at
  // once.
  enum class QkNorm { none, head, head_after, head_layer, full };
  QkNorm qk_norm = QkNorm::none;
  bool o_bias = false;
  bool sinks = false;  // a score for each head that takes part in the softmax without a value
  // Latent attention: the cache has latents. kv_rank 0: the model has the usual attention.
  struct Latent {
    // transformers fixes this value for norms of latents. No configuration changes it.
    static constexpr double eps = 1e-6;
    int64_t q_rank = 0, kv_rank = 0, nope = 0, rotary = 0, values = 0;
    // An indexer chooses the positions that a token sees. No heads of it: all before the token.
    int64_t index_heads = 0, index_dim = 0, index_top_k = 0;
    bool index_neighbours = false;  // its rope turns neighbours, not halves
    std::vector<bool> own_index;    // by layer; without one a layer has an earlier one's choice
  };
  Latent latent;
  double attention_scale = 0, attention_cap = 0;
  std::string gate;  // a product whose sigmoid scales what attention gives; empty: there is none
  bool interleaved = false;        // rope turns neighbours, not halves
  std::vector<Rope> ropes;         // different ones
  std::vector<int64_t> rope_of;    // by layer: which of them; -1: a layer does not rotate
  bool learned_positions = false;  // a table of positions is added to the embedding
  bool sinusoidal = false;         // its values are sines and cosines, in no checkpoint
  // ALiBi: scores fall with the distance to the key. Each head has a slope of its own, which is
  // multiplied by this number. 0: no ALiBi.
  double alibi_scale = 0;
  int64_t position_offset = 0;  // rows of it before position 0
  int64_t token_types = 0;      // rows of a table of kinds of tokens; 0: there is none

  bool gated = true, mlp_bias = false, down_bias = false;
  std::string activation = "silu";  // silu, gelu, gelu_tanh, relu, relu2, xielu

  // A mixture of experts in place of the MLP of some layers.
  struct Mixture {
    int64_t experts = 0, top_k = 0, width = 0;  // no experts: no layer has one
    std::vector<bool> layers;                   // which layers have it
    bool sigmoid = false, renormalize = true;   // scores are a sigmoid, or a softmax
    int64_t groups = 1, kept_groups = 1;        // of experts; some are kept for each token
    double scale = 1;                           // of the chosen experts' weights
    int64_t shared_width = 0;                   // of an MLP that every token sees; 0: none
    bool shared_bias = false;
    // Names below a layer's path. In `up` and `down` a star is an expert's number. Without a star
    // one tensor has all experts, and with `bare` its name lacks ".weight". `correction` and
    // `shared_gate` may be empty.
    std::string gate, correction, down, shared_gate, shared_down;
    std::vector<std::string> up, shared_up;
    bool bare = false;
    bool transposed = false;          // matrices of experts are [in, out]
    bool bias = false;                // of the router, and of both products
    std::string activation = "silu";  // silu, swiglu_oai
    double jitter = 0;                // of the router, as in topk_softmax
    // True if the mixture has only a router with softmax, and experts.
    bool is_simple() const {
      return !sigmoid && jitter == 0 && correction.empty() && groups == 1 && scale == 1 &&
             shared_width == 0;
    }
  };
  Mixture mixture;
  bool is_mixture(int64_t layer) const {
    return mixture.experts > 0 && mixture.layers[static_cast<size_t>(layer)];
  }

  // Matrices which keep their form in the checkpoint. All are in blocks of fp8 beside latents.
  // Those of dense layers are in fp8, those of experts in mxfp4.
  Fp8 fp8;
  Fp8Products products;
  bool mxfp4 = false;

  double embedding_scale = 1, residual_scale = 1, logit_scale = 1, logit_cap = 0;

  // Checkpoint names below a layer, without ".weight". The others are in base.names.
  std::string position, types, o, q_norm, k_norm, down;
  std::vector<std::string> qkv, up;  // one fused, or the parts (gated: gate, up)
  // Rows of a fused qkv. `blocks`: q, k, v. `groups`: for each key/value head its queries, key and
  // value. `quarters`: four shards of the training, each with a part of q, v and k.
  enum class QkvRows { blocks, groups, quarters };
  QkvRows qkv_rows = QkvRows::blocks;
  bool up_first = false;    // rows of a fused gate and up
  bool transposed = false;  // matrices of layers are [in, out]
  // Unread tensors of a layer in old checkpoints.
  std::vector<std::string> buffers;
  int64_t further_layers = 0;  // behind the others, unread: they predict further tokens

  bool rotates(int64_t layer) const { return rope_of[static_cast<size_t>(layer)] >= 0; }
  // The index of a layer's rope. The layer must rotate.
  size_t rope_at(int64_t layer) const {
    return static_cast<size_t>(rope_of[static_cast<size_t>(layer)]);
  }
  // True if each layer is one op: a decoder_layer or mla_decoder_layer, or one with experts
  // (moe_decoder_layer, mla_moe_decoder_layer). All but the experts must have Llama's checkpoint
  // names.
  bool is_plain() const;
  // The same for any checkpoint names.
  bool has_plain_layers() const;
};

// Pairs of a contract's name and the form's name in checkpoints. Each part of a fused tensor has
// the tensor's name.
Net::Names names_of(const DecoderForm& form);
// The same for a mixture, whose call has this path.
Net::Names names_of_mixture(const DecoderForm& form, const std::string& path);
// Views of q, k and v in a fused tensor with QkvRows::groups or QkvRows::quarters.
std::vector<PartView> qkv_views(const DecoderForm& form, const WeightSpec& spec);
// Changes a contract's weight so that it is read from the tensors of this form's checkpoints.
void adapt_weight(const DecoderForm& form, WeightSpec& spec);

// "self_attn" for "self_attn.o_proj". Empty for a name without a dot.
std::string parent_of(const std::string& name);
std::string below(const std::string& path, const std::string& name);

DecoderForm read_decoder_form(const Config& description, const Config& config);

// Records a phase, whole or one rank's part.
void record_decoder(Net& n, const std::string& phase, const DecoderForm& form);

}  // namespace fk::parts
