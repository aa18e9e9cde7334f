// SPDX-License-Identifier: Apache-2.0
// Checkpoint names are those of transformers; they are the same for every family that uses this.
#include "baselines/models/parts/decoder.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk::parts {

int64_t table_positions(const DecoderConfig& config, const Limits& limits) {
  return std::min(config.max_position, limits.max_context);
}

std::string decoder_refusal(const DecoderConfig& c, int64_t experts, const Parallel& p) {
  const auto ranks = [](int64_t n) { return std::to_string(n) + " ranks"; };
  if (c.heads % p.tp)
    return std::to_string(c.heads) + " heads cannot be divided between " + ranks(p.tp);
  if (c.kv_heads % p.tp && p.tp % c.kv_heads)
    return std::to_string(c.kv_heads) + " key/value heads cannot be divided between " + ranks(p.tp);
  if (p.ep > 1 && experts == 0) return "it has no experts to divide between " + ranks(p.ep);
  if (p.ep > experts && p.ep > 1)
    return std::to_string(experts) + " experts cannot be divided between " + ranks(p.ep);
  return "";
}

DecoderStep begin_batch(Net& n, const std::string& phase) {
  DecoderStep s;
  s.decode = phase == "decode";
  s.requests = n.axis("B");
  s.tokens = s.decode ? s.requests : n.axis("T");
  s.rows_count = s.decode ? s.requests : n.axis("Q");
  s.width = n.axis("W");
  s.max_query_len = s.decode ? Expr(1) : s.tokens;
  s.max_seq_len = s.width * n.limits().page_size;
  s.positions = n.input("positions", DType::i64, {s.tokens});
  n.common({{"positions", s.positions},
            {"slot_mapping", n.input("slot_mapping", DType::i64, {s.tokens})},
            {"block_tables", n.input("block_tables", DType::i32, {s.requests, s.width})},
            {"cu_seqlens", n.input("cu_seqlens", DType::i32, {s.requests + 1})},
            {"seq_lens", n.input("seq_lens", DType::i32, {s.requests})},
            {"page_size", n.limits().page_size},
            {"max_query_len", s.max_query_len},
            {"max_seq_len", s.max_seq_len}});
  return s;
}

void begin_attention(Net& n, const DecoderConfig& config) {
  const int64_t positions = table_positions(config, n.limits());
  WeightSpec table;
  table.name = config.names.rotary + ".cos_sin_cache";
  table.shape = {positions, config.rope.rotary_dim};
  table.compute = [rope = config.rope, positions] { return rope_table(rope, positions); };
  n.common({{"cos_sin_cache", n.weight(std::move(table))},
            {"num_heads", config.heads},
            {"num_kv_heads", config.kv_heads},
            {"head_dim", config.head_dim},
            {"scale", 1 / std::sqrt(static_cast<double>(config.head_dim))},
            {"intermediate_size", config.intermediate_size},
            {"eps", config.eps}});
}

void begin_large(Net& n, const DecoderConfig& config, const std::string& weight) {
  if (!config.steady || config.tied) return;
  n.adapt([weight, root = std::sqrt(static_cast<double>(config.layers))](WeightSpec& spec) {
    if (spec.name != weight) return;
    spec.mean *= root;
    spec.stddev = root * (spec.stddev != 0 ? spec.stddev : 1);
  });
}

void look_up(Net& n, DecoderStep& step, const DecoderConfig& config) {
  begin_large(n, config, config.names.embedding + ".weight");
  if (config.tied) {
    // A draft's head ends with the same name, and is its own. As a head too, a table of unit
    // elements would give logits of the size sqrt(C).
    n.adapt([head = config.names.head + ".weight", table = config.names.embedding + ".weight",
             gain = 1 / std::sqrt(static_cast<double>(config.hidden_size))](WeightSpec& spec) {
      if (spec.name == head) spec.name = table;
      if (spec.name == table) spec.stddev = gain;
    });
  }
  step.hidden = n("embedding", config.names.embedding,
                  {{"num_embeddings", config.vocab_size},
                   {"embedding_dim", config.hidden_size},
                   {"ids", n.input("ids", DType::i64, {step.tokens})}});
}

DecoderStep begin_step(Net& n, const std::string& phase, const DecoderConfig& config) {
  DecoderStep s = begin_batch(n, phase);
  const int64_t most = generate_axis_limit(phase, s.decode ? "B" : "T", n.limits());
  n.common({{"max_tokens_per_rank", most / n.parallel().ep}});
  begin_attention(n, config);
  s.residual = n.zeros(n.limits().dtype, {s.tokens, config.hidden_size});
  look_up(n, s, config);
  return s;
}

void tap_hidden(Net& n, const DecoderStep& step, int64_t layer) {
  n.tap("hidden." + std::to_string(layer), {step.hidden, step.residual});
}

std::string layer_path(const DecoderConfig& config, int64_t layer) {
  return config.names.layers + "." + std::to_string(layer);
}

void record_layer(Net& n, const std::string& op, const DecoderStep& step,
                  const DecoderConfig& config, int64_t layer, Args args) {
  tap_hidden(n, step, layer);
  args.emplace_back("hidden", step.hidden);
  args.emplace_back("residual", step.residual);
  n.common({{"window", config.windows[static_cast<size_t>(layer)]}});
  n(op, layer_path(config, layer), std::move(args), config.with);
}

// Over all rows, though few are needed: the last hidden state is something to compare, and the norm
// costs little.
Value end_layers(Net& n, const DecoderStep& step, const DecoderConfig& config) {
  const Value x =
      n("rms_norm", config.names.norm, {{"x", step.hidden}, {"residual", step.residual}});
  n.tap("hidden." + std::to_string(config.layers), {x});
  return x;
}

Value wanted_logits(Net& n, const DecoderStep& step, Value x, const DecoderConfig& config) {
  if (!step.decode)
    x = n("gather_rows", config.names.rows,
          {{"x", x}, {"rows", n.input("rows", DType::i32, {step.rows_count})}});
  const std::vector<std::string> with(config.head_bias ? 1 : 0, "bias");
  return n.columns(config.names.head, x, config.vocab_size, DType::f32, with);
}

Sampled sample(Net& n, const DecoderStep& step, Value logits) {
  const auto per_row = [&](const char* name, DType dtype) {
    return n.input(name, dtype, {step.rows_count});
  };
  const Value tokens = n("sample_tokens", "sampler",
                         {{"logits", logits},
                          {"temperature", per_row("temperature", DType::f32)},
                          {"top_k", per_row("top_k", DType::i32)},
                          {"top_p", per_row("top_p", DType::f32)},
                          {"uniform", per_row("uniform", DType::f32)}});
  n.output("logits", logits);
  n.output("tokens", tokens);
  return {logits, tokens};
}

Sampled sample_rows(Net& n, const DecoderStep& step, Value x, const DecoderConfig& config) {
  return sample(n, step, wanted_logits(n, step, x, config));
}

void end_step(Net& n, const DecoderStep& step, const DecoderConfig& config) {
  sample_rows(n, step, end_layers(n, step, config), config);
}

std::vector<Model::Unread> unread_head(const DecoderConfig& config) {
  if (!config.tied) return {};
  return {{config.names.head + ".weight", "a tied head", config.names.embedding + ".weight"}};
}

GenerateOptions decoder_options(const DecoderConfig& config) {
  return {.vocabulary = config.vocab_size, .positions = config.max_position, .eos = config.eos};
}

}  // namespace fk::parts
