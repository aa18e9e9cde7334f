// SPDX-License-Identifier: Apache-2.0
// Parts that decoder-only models with rotary positions and a paged cache share: the configuration,
// the inputs of a step, common arguments of attention layers, and the head. Layers stand in the
// model files.
#pragma once
#include <string>
#include <vector>

#include "baselines/models/parts/rope.hpp"
#include "core/engines/generate/engine.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

// Where a checkpoint has what stands around the layers.
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
  bool attention_bias = false;  // of q, k and v (and o, where the layer has it)
  bool head_bias = false;
  // Optional weights of its layers, and groups of them, by the names of the contracts.
  std::vector<std::string> with;
  std::vector<int64_t> windows;  // by layer; 0: attends to everything before
  std::vector<int64_t> eos;
  Rope rope;
};

// `eos_token_id`, absent, a number or a list.
std::vector<int64_t> read_eos(const Config& config);
// Error for what the shared parts do not have: another activation, biases of projections unless the
// model says that its layers have them.
DecoderConfig read_decoder(const Config& config, bool with_attention_bias = false,
                           const RopeKeys& rope = {});

// `sliding_window`; null: 0, no window.
int64_t read_window(const Config& config);
// Sets the windows of the layers that `layer_types`, which is present, names sliding.
void slide_layers(const Config& config, int64_t window, DecoderConfig& decoder);
// `num_experts_per_tok`, at most the number of experts.
int64_t read_top_k(const Config& config, int64_t experts);

// Why a decoder cannot be divided like this, with so many experts (0: none); empty when it can.
std::string decoder_refusal(const DecoderConfig& config, int64_t experts, const Parallel& parallel);
// Rows of the rotary table: positions are below max_context, so no more are ever read.
int64_t table_positions(const DecoderConfig& config, const Limits& limits);

// One step while it is recorded. In "decode" every request has one token that is sampled from, so
// that all three counts are the one axis B and no rows need to be gathered.
struct DecoderStep {
  Expr tokens, requests, rows_count, width;  // T, B, Q, W
  Expr max_query_len, max_seq_len;
  bool decode = false;
  Value positions;
  Value hidden, residual;  // [T,C] each; their sum is the input of the next layer
};

// Declares what every batch of tokens over a paged cache has, but for the tokens.
DecoderStep begin_batch(Net& n, const std::string& phase);
// Puts the sizes of attention and the rotary table among the common arguments.
void begin_attention(Net& n, const DecoderConfig& config);
// Looks the tokens up: step.hidden. The table and the head of a tied model are one weight.
void look_up(Net& n, DecoderStep& step, const DecoderConfig& config);
// All of these, and a residual of zeros.
DecoderStep begin_step(Net& n, const std::string& phase, const DecoderConfig& config);
// Makes the input of a layer visible as "hidden.<layer>".
void tap_hidden(Net& n, const DecoderStep& step, int64_t layer);
std::string layer_path(const DecoderConfig& config, int64_t layer);
// One layer by an op that has `hidden` and `residual`, with its arguments beyond the common ones.
void record_layer(Net& n, const std::string& op, const DecoderStep& step,
                  const DecoderConfig& config, int64_t layer, Args args = {});
// The final norm of all rows, visible as the last "hidden".
Value end_layers(Net& n, const DecoderStep& step, const DecoderConfig& config);
struct Sampled {
  Value logits, tokens;
};
// Logits of the wanted rows of x [T,C] by the head.
Value wanted_logits(Net& n, const DecoderStep& step, Value x, const DecoderConfig& config);
// A token of each row of logits: a step's outputs.
Sampled sample(Net& n, const DecoderStep& step, Value logits);
// Both.
Sampled sample_rows(Net& n, const DecoderStep& step, Value x, const DecoderConfig& config);
void end_step(Net& n, const DecoderStep& step, const DecoderConfig& config);

// The head of a checkpoint whose model is tied: it has to be the embedding table.
std::vector<Model::Unread> unread_head(const DecoderConfig& config);

// Options of the engine that drives such a decoder.
GenerateOptions decoder_options(const DecoderConfig& config);

}  // namespace fk::parts
