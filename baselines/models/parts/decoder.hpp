// SPDX-License-Identifier: Apache-2.0
// Common parts of decoder-only models with rotary positions and a paged cache. They are the
// configuration, the inputs of a step, common arguments of attention layers, and the head. The
// models' own files have the layers.
#pragma once
#include <string>
#include <vector>

#include "baselines/models/parts/rope.hpp"
#include "core/engines/generate/engine.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

// Names in a checkpoint of the weights before and after the layers, and of the list of layers.
struct DecoderNames {
  std::string embedding = "model.embed_tokens", layers = "model.layers", norm = "model.norm";
  std::string head = "lm_head";
  std::string rotary = "model.rotary_emb", rows = "model.rows";  // in no checkpoint
};

struct DecoderConfig {
  DecoderNames names;
  int64_t hidden_size = 0, intermediate_size = 0, layers = 0, vocab_size = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t max_position = 0;
  double eps = 0;
  bool tied = false;            // lm_head is the embedding table
  bool attention_bias = false;  // of q, k and v (and o, if the layer has it)
  bool head_bias = false;
  // Random weights: the stream of the layers begins with the size of their sum, so that rounding
  // does not grow from layer to layer. Weights of a checkpoint stay.
  bool steady = false;
  // Optional weights, and groups of weights, which the layers have, by their names in the
  // contracts.
  std::vector<std::string> with;
  std::vector<int64_t> windows;  // by layer; 0: attends to everything before
  std::vector<int64_t> eos;
  Rope rope;
};

// `eos_token_id`, absent, a number or a list.
std::vector<int64_t> read_eos(const Config& config);
// Error for features which the shared parts lack: another activation, or biases of projections
// unless `with_attention_bias`.
DecoderConfig read_decoder(const Config& config, bool with_attention_bias = false,
                           const RopeKeys& rope = {});

// `sliding_window`; null: 0, no window.
int64_t read_window(const Config& config);
// Sets the windows of the layers which `layer_types` calls sliding. The key must be present.
void slide_layers(const Config& config, int64_t window, DecoderConfig& decoder);
// `num_experts_per_tok`, at most the number of experts.
int64_t read_top_k(const Config& config, int64_t experts);

// The reason why a decoder with this number of experts (0: none) cannot be divided like this.
// Empty: it can be divided.
std::string decoder_refusal(const DecoderConfig& config, int64_t experts, const Parallel& parallel);
// Rows of the rotary table. Positions are below max_context, so no run reads more rows.
int64_t table_positions(const DecoderConfig& config, const Limits& limits);

// One step during recording. In "decode" every request has one token, whose logits are sampled. So
// tokens, requests and rows are the one axis B, and no rows are gathered.
struct DecoderStep {
  Expr tokens, requests, rows_count, width;  // T, B, Q, W
  Expr max_query_len, max_seq_len;
  bool decode = false;
  Value positions;
  Value hidden, residual;  // [T,C] each; their sum is the input of the next layer
};

// Multiplies the random elements of this weight by the root of the number of layers, if `steady`.
void begin_large(Net& n, const DecoderConfig& config, const std::string& weight);
// Declares the axes and inputs of a batch of tokens over a paged cache, except the token ids.
DecoderStep begin_batch(Net& n, const std::string& phase);
// Puts the sizes of attention and the rotary table among the common arguments.
void begin_attention(Net& n, const DecoderConfig& config);
// Sets step.hidden to the embeddings of the tokens. Table and head of a tied model are one weight.
void look_up(Net& n, DecoderStep& step, const DecoderConfig& config);
// begin_batch, begin_attention and look_up, and a residual of zeros.
DecoderStep begin_step(Net& n, const std::string& phase, const DecoderConfig& config);
// Makes the input of a layer visible as "hidden.<layer>".
void tap_hidden(Net& n, const DecoderStep& step, int64_t layer);
std::string layer_path(const DecoderConfig& config, int64_t layer);
// Records one layer as an op with the arguments `hidden` and `residual`. `args` are its arguments
// beyond the common ones.
void record_layer(Net& n, const std::string& op, const DecoderStep& step,
                  const DecoderConfig& config, int64_t layer, Args args = {});
// The final norm of all rows, visible as the last "hidden".
Value end_layers(Net& n, const DecoderStep& step, const DecoderConfig& config);
struct Sampled {
  Value logits, tokens;
};
// The head's logits of the wanted rows of x [T,C].
Value wanted_logits(Net& n, const DecoderStep& step, Value x, const DecoderConfig& config);
// Samples a token of each row of logits. Makes both outputs of the step.
Sampled sample(Net& n, const DecoderStep& step, Value logits);
// sample(wanted_logits(x)).
Sampled sample_rows(Net& n, const DecoderStep& step, Value x, const DecoderConfig& config);
void end_step(Net& n, const DecoderStep& step, const DecoderConfig& config);

// The head which a checkpoint of a tied model may have. It must equal the embedding table.
std::vector<Model::Unread> unread_head(const DecoderConfig& config);

// Options of the generate engine for this decoder.
GenerateOptions decoder_options(const DecoderConfig& config);

}  // namespace fk::parts
