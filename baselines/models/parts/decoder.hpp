// SPDX-License-Identifier: Apache-2.0
// What decoder-only models with rotary positions and a paged cache share: reading the
// configuration, the inputs of a step, the arguments of an attention layer, and the head. The
// layers themselves stand in the model files.
#pragma once
#include <string>
#include <vector>

#include "baselines/models/parts/rope.hpp"
#include "core/graph/builder.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

struct DecoderConfig {
  int64_t hidden_size = 0, intermediate_size = 0, layers = 0, vocab_size = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t max_position = 0;
  double eps = 0;
  bool tied = false;             // lm_head is the embedding table
  bool attention_bias = false;   // of q, k and v (and o, where the layer has it)
  std::vector<int64_t> windows;  // by layer; 0: attends to everything before
  std::vector<int64_t> eos;
  Rope rope;
};

// `eos_token_id`, absent, a number or a list.
std::vector<int64_t> read_eos(const Config& config);
// Error for what the shared parts do not have: another activation, biases of projections unless the
// model says that its layers have them.
DecoderConfig read_decoder(const Config& config, bool with_attention_bias = false);

// `sliding_window`; null: 0, no window.
int64_t read_window(const Config& config);
// Sets the windows of the layers that `layer_types`, which is present, names sliding.
void slide_layers(const Config& config, int64_t window, DecoderConfig& decoder);
// `num_experts_per_tok`, at most the number of experts.
int64_t read_top_k(const Config& config, int64_t experts);

WeightSpec matrix(std::string name, DType dtype, std::vector<int64_t> shape,
                  std::vector<std::string> concatenated);
WeightSpec norm_weight(std::string name, DType dtype, int64_t channels);
// [V,C], or this rank's rows of it.
WeightSpec embedding_table(const DecoderConfig& config, DType dtype, const Parallel& parallel = {});

// What one rank of a divided decoder has. Every rank has as much as every other: what does not go
// up is padded with zeros.
struct DecoderShare {
  int64_t heads = 0, kv_heads = 0;  // fewer key/value heads than ranks: several have the same one
  int64_t intermediate_size = 0, vocab_size = 0;
  DecoderShare(const DecoderConfig& config, const Parallel& parallel);
};
// Why a decoder cannot be divided like this, with so many experts (0: none); empty when it can.
std::string decoder_refusal(const DecoderConfig& config, int64_t experts, const Parallel& parallel);
// This rank's part of an axis of `size` elements that is cut into equal parts, from `first` on.
WeightCut::Piece piece_of(int64_t size, const Parallel& parallel, int64_t first = 0);

// Rows of this rank's heads in q, k and v, one after the other.
std::vector<WeightCut::Piece> qkv_pieces(const DecoderConfig& config, const Parallel& parallel);

// Rows of the rotary table: positions are below max_context, so no more are ever read.
int64_t table_positions(const DecoderConfig& config, const Limits& limits);

// One step while it is recorded. In "decode" every request has one token that is sampled from, so
// that all three counts are the one axis B and no rows need to be gathered.
struct DecoderStep {
  Expr tokens, requests, rows_count, width;  // T, B, Q, W
  Expr max_query_len, max_seq_len;
  bool decode = false;
  Value positions, slot_mapping, block_tables, cu_seqlens, seq_lens, cos_sin;
  Value hidden, residual;  // [T,C] each; their sum is the input of the next layer
};

// Declares what every batch of tokens over a paged cache has, but for the tokens.
DecoderStep begin_batch(Builder& b, const std::string& phase, const Limits& limits);
// Declares the inputs, without the tokens.
DecoderStep begin_inputs(Builder& b, const std::string& phase, const DecoderConfig& config,
                         const Limits& limits);
// Declares the inputs and looks the tokens up.
DecoderStep begin_step(Builder& b, const std::string& phase, const DecoderConfig& config,
                       const Limits& limits);
// Init values, weights and tensors that every decoder layer has: attention and both norms. With
// tensor parallelism those of this rank's share.
Args layer_args(Builder& b, const DecoderStep& step, const DecoderConfig& config,
                const Limits& limits, int64_t layer);
// The weights of a dense layer's gated MLP.
void add_gated_mlp(Args& args, Builder& b, const DecoderConfig& config, const Limits& limits,
                   int64_t layer);
// Makes the input of a layer visible as "hidden.<layer>".
void tap_hidden(Builder& b, const DecoderStep& step, int64_t layer);
// "model.layers.<layer>"
std::string layer_path(int64_t layer);
// Logits of the wanted rows of x [T,C] by the table `head` [V,C], sampling: a step's outputs.
void sample_rows(Builder& b, const DecoderStep& step, Value x, const WeightSpec& head);
// The wanted rows of x [T,C].
Value wanted_rows(Builder& b, const DecoderStep& step, Value x);
// Samples from logits [Q,V]: a step's outputs.
void sample_logits(Builder& b, const DecoderStep& step, Value logits);
// Final norm, then sample_rows.
void end_step(Builder& b, const DecoderStep& step, const DecoderConfig& config,
              const Limits& limits);

// The head of a checkpoint whose model is tied: it has to be the embedding table.
std::vector<Model::Unread> unread_head(const DecoderConfig& config);

// Pages of the cache under these limits.
int64_t cache_pages(const Limits& limits);
// Rows that get logits in one prefill step: prompts may be scored, but not a whole chunk at once.
inline constexpr int64_t kPrefillRows = 64;
int64_t decoder_axis_limit(const std::string& phase, const std::string& axis, const Limits& limits);

}  // namespace fk::parts
