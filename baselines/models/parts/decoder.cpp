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

WeightSpec embedding_table(const DecoderConfig& config, DType dtype, const Parallel& parallel) {
  WeightSpec spec;
  spec.name = "model.embed_tokens.weight";
  spec.dtype = dtype;
  spec.shape = {config.vocab_size, config.hidden_size};
  // As a head too, a table of unit elements would give logits of the size sqrt(C).
  spec.stddev = config.tied ? 1 / std::sqrt(static_cast<double>(config.hidden_size)) : 1;
  if (parallel.tp > 1) spec.cuts = {{0, {piece_of(config.vocab_size, parallel)}}};
  return spec;
}

WeightSpec matrix(std::string name, DType dtype, std::vector<int64_t> shape,
                  std::vector<std::string> concatenated) {
  WeightSpec spec;
  spec.name = std::move(name);
  spec.dtype = dtype;
  spec.shape = std::move(shape);
  if (!concatenated.empty()) spec.parts = {std::move(concatenated)};
  return spec;
}

WeightSpec norm_weight(std::string name, DType dtype, int64_t channels) {
  WeightSpec spec;
  spec.name = std::move(name);
  spec.dtype = dtype;
  spec.shape = {channels};
  spec.mean = 1;
  spec.stddev = 0.2;
  return spec;
}

WeightCut::Piece piece_of(int64_t size, const Parallel& parallel, int64_t first) {
  const int64_t length = (size + parallel.tp - 1) / parallel.tp;
  return {first + parallel.rank * length, length, first + size};
}

DecoderShare::DecoderShare(const DecoderConfig& c, const Parallel& p)
    : heads(c.heads / p.tp),
      kv_heads(std::max<int64_t>(1, c.kv_heads / p.tp)),
      intermediate_size((c.intermediate_size + p.tp - 1) / p.tp),
      vocab_size((c.vocab_size + p.tp - 1) / p.tp) {}

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

std::vector<WeightCut::Piece> qkv_pieces(const DecoderConfig& c, const Parallel& p) {
  const DecoderShare share(c, p);
  const int64_t width = c.head_dim, kv = share.kv_heads * width;
  const int64_t first = p.rank * c.kv_heads / p.tp * width;
  const int64_t keys = c.heads * width, values = keys + c.kv_heads * width;
  return {piece_of(c.heads * width, p),
          {keys + first, kv, values},
          {values + first, kv, values + c.kv_heads * width}};
}

DecoderStep begin_batch(Builder& b, const std::string& phase, const Limits& limits) {
  DecoderStep s;
  s.decode = phase == "decode";
  s.requests = b.axis("B");
  s.tokens = s.decode ? s.requests : b.axis("T");
  s.rows_count = s.decode ? s.requests : b.axis("Q");
  s.width = b.axis("W");
  s.max_query_len = s.decode ? Expr(1) : s.tokens;
  s.max_seq_len = s.width * limits.page_size;
  s.positions = b.input("positions", DType::i64, {s.tokens});
  s.slot_mapping = b.input("slot_mapping", DType::i64, {s.tokens});
  s.block_tables = b.input("block_tables", DType::i32, {s.requests, s.width});
  s.cu_seqlens = b.input("cu_seqlens", DType::i32, {s.requests + 1});
  s.seq_lens = b.input("seq_lens", DType::i32, {s.requests});
  return s;
}

DecoderStep begin_inputs(Builder& b, const std::string& phase, const DecoderConfig& config,
                         const Limits& limits) {
  DecoderStep s = begin_batch(b, phase, limits);
  WeightSpec table;
  table.name = "model.rotary_emb.cos_sin_cache";
  const int64_t positions = table_positions(config, limits);
  table.shape = {positions, config.rope.rotary_dim};
  table.compute = [rope = config.rope, positions] { return rope_table(rope, positions); };
  s.cos_sin = b.weight(std::move(table));
  s.residual = b.zeros(limits.dtype, {s.tokens, config.hidden_size});
  return s;
}

DecoderStep begin_step(Builder& b, const std::string& phase, const DecoderConfig& config,
                       const Limits& limits) {
  DecoderStep s = begin_inputs(b, phase, config, limits);
  s.hidden = b.call("embedding", "model.embed_tokens",
                    {{"num_embeddings", config.vocab_size},
                     {"embedding_dim", config.hidden_size},
                     {"table", b.weight(embedding_table(config, limits.weights()))},
                     {"ids", b.input("ids", DType::i64, {s.tokens})},
                     {"out", b.empty(limits.dtype, {s.tokens, config.hidden_size})}});
  return s;
}

Args layer_args(Builder& b, const DecoderStep& step, const DecoderConfig& config,
                const Limits& limits, int64_t layer) {
  const std::string path = layer_path(layer);
  const std::string attention = path + ".self_attn.";
  const int64_t channels = config.hidden_size, width = config.head_dim;
  const DecoderShare share(config, limits.parallel);
  const auto cache = [&](const char* name) {
    return b.state(attention + name, limits.cache_dtype,
                   {b.axis("P"), limits.page_size, share.kv_heads, width});
  };
  const auto norm = [&](const char* name) {
    return b.weight(norm_weight(path + name, limits.weights(), channels));
  };
  WeightSpec qkv = matrix(
      attention + "qkv_proj.weight", limits.weights(),
      {(config.heads + 2 * config.kv_heads) * width, channels},
      {attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"});
  WeightSpec o =
      matrix(attention + "o_proj.weight", limits.weights(), {channels, config.heads * width}, {});
  if (limits.parallel.tp > 1) {
    qkv.cuts = {{0, qkv_pieces(config, limits.parallel)}};
    o.cuts = {{1, {piece_of(config.heads * width, limits.parallel)}}};
  }
  Args args{{"hidden_size", channels},
            {"intermediate_size", share.intermediate_size},
            {"num_heads", share.heads},
            {"num_kv_heads", share.kv_heads},
            {"head_dim", width},
            {"page_size", limits.page_size},
            {"rotary_dim", config.rope.rotary_dim},
            {"max_position", table_positions(config, limits)},
            {"scale", 1 / std::sqrt(static_cast<double>(width))},
            {"window", config.windows[static_cast<size_t>(layer)]},
            {"eps", config.eps},
            {"qkv", b.weight(std::move(qkv))},
            {"o", b.weight(std::move(o))},
            {"cos_sin_cache", step.cos_sin},
            {"input_norm", norm(".input_layernorm.weight")},
            {"post_norm", norm(".post_attention_layernorm.weight")},
            {"positions", step.positions},
            {"k_cache", cache("k_cache")},
            {"v_cache", cache("v_cache")},
            {"block_tables", step.block_tables},
            {"cu_seqlens", step.cu_seqlens},
            {"seq_lens", step.seq_lens},
            {"slot_mapping", step.slot_mapping},
            {"max_query_len", step.max_query_len},
            {"max_seq_len", step.max_seq_len},
            {"hidden", step.hidden},
            {"residual", step.residual}};
  if (config.attention_bias) {
    WeightSpec bias =
        matrix(attention + "qkv_proj.bias", limits.weights(),
               {(config.heads + 2 * config.kv_heads) * width},
               {attention + "q_proj.bias", attention + "k_proj.bias", attention + "v_proj.bias"});
    bias.stddev = 0.1;
    if (limits.parallel.tp > 1) bias.cuts = {{0, qkv_pieces(config, limits.parallel)}};
    args.emplace_back("qkv_bias", b.weight(std::move(bias)));
  }
  return args;
}

void add_gated_mlp(Args& args, Builder& b, const DecoderConfig& config, const Limits& limits,
                   int64_t layer) {
  const std::string mlp = layer_path(layer) + ".mlp.";
  const int64_t channels = config.hidden_size, hidden = config.intermediate_size;
  WeightSpec gate_up = matrix(mlp + "gate_up_proj.weight", limits.weights(), {2 * hidden, channels},
                              {mlp + "gate_proj.weight", mlp + "up_proj.weight"});
  WeightSpec down = matrix(mlp + "down_proj.weight", limits.weights(), {channels, hidden}, {});
  if (limits.parallel.tp > 1) {
    gate_up.cuts = {
        {0, {piece_of(hidden, limits.parallel), piece_of(hidden, limits.parallel, hidden)}}};
    down.cuts = {{1, {piece_of(hidden, limits.parallel)}}};
  }
  args.emplace_back("gate_up", b.weight(std::move(gate_up)));
  args.emplace_back("down", b.weight(std::move(down)));
}

void tap_hidden(Builder& b, const DecoderStep& step, int64_t layer) {
  b.tap("hidden." + std::to_string(layer), {step.hidden, step.residual});
}

std::string layer_path(int64_t layer) { return "model.layers." + std::to_string(layer); }

Value wanted_rows(Builder& b, const DecoderStep& step, Value x) {
  if (step.decode) return x;
  const Value rows = b.input("rows", DType::i32, {step.rows_count});
  return b.call("gather_rows", "model.rows",
                {{"size", b.shape(x)[1].value()}, {"x", x}, {"rows", rows}});
}

void sample_rows(Builder& b, const DecoderStep& step, Value x, const WeightSpec& head) {
  const int64_t vocab = head.shape[0], channels = head.shape[1];
  x = wanted_rows(b, step, x);
  sample_logits(b, step,
                b.call("linear", "lm_head",
                       {{"in_features", channels},
                        {"out_features", vocab},
                        {"weight", b.weight(head)},
                        {"x", x},
                        {"out", b.empty(DType::f32, {step.rows_count, vocab})}}));
}

void sample_logits(Builder& b, const DecoderStep& step, Value logits) {
  const auto per_row = [&](const char* name, DType dtype) {
    return b.input(name, dtype, {step.rows_count});
  };
  const Value tokens = b.call("sample_tokens", "sampler",
                              {{"vocab_size", b.shape(logits)[1].value()},
                               {"logits", logits},
                               {"temperature", per_row("temperature", DType::f32)},
                               {"top_k", per_row("top_k", DType::i32)},
                               {"top_p", per_row("top_p", DType::f32)},
                               {"uniform", per_row("uniform", DType::f32)}});
  b.output("logits", logits);
  b.output("tokens", tokens);
}

void end_step(Builder& b, const DecoderStep& step, const DecoderConfig& config,
              const Limits& limits) {
  const int64_t channels = config.hidden_size;
  // Over all rows, though few are needed: the last hidden state is something to compare, and the
  // norm costs little.
  const Value x =
      b.call("rms_norm", "model.norm",
             {{"hidden_size", channels},
              {"eps", config.eps},
              {"weight", b.weight(norm_weight("model.norm.weight", limits.weights(), channels))},
              {"x", step.hidden},
              {"residual", step.residual}});
  b.tap("hidden." + std::to_string(config.layers), {x});
  sample_rows(b, step, x,
              config.tied
                  ? embedding_table(config, limits.weights())
                  : matrix("lm_head.weight", limits.weights(), {config.vocab_size, channels}, {}));
}

std::vector<Model::Unread> unread_head(const DecoderConfig& config) {
  if (!config.tied) return {};
  return {{"lm_head.weight", "a tied head", "model.embed_tokens.weight"}};
}

int64_t cache_pages(const Limits& limits) {
  const int64_t width = (limits.max_context + limits.page_size - 1) / limits.page_size;
  return limits.pages > 0 ? limits.pages : limits.max_batch * width;
}

int64_t decoder_axis_limit(const std::string& phase, const std::string& axis,
                           const Limits& limits) {
  const bool decode = phase == "decode";
  if (axis == "P") return cache_pages(limits);
  if (axis == "W") return (limits.max_context + limits.page_size - 1) / limits.page_size;
  // Tokens go to the ranks of experts in equal parts, of which the largest are those of the limit.
  const int64_t ep = limits.parallel.ep;
  const auto whole = [ep](int64_t tokens) { return (tokens + ep - 1) / ep * ep; };
  if (axis == "B") return decode ? whole(limits.max_batch) : limits.max_batch;
  if (axis == "T") return whole(decode ? limits.max_batch : limits.chunk_tokens);
  if (axis == "Q") {
    return decode ? limits.max_batch
                  : std::min(limits.chunk_tokens, std::max(limits.max_batch, kPrefillRows));
  }
  fail("phase " + phase, "there is no axis `" + axis + "`",
       did_you_mean(axis, {"T", "B", "Q", "W", "P"}));
}

}  // namespace fk::parts
