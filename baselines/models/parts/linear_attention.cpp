// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/linear_attention.hpp"

#include <cmath>

#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

namespace {

// The width of a head: `key` times the model's width, divided by the number of heads.
int64_t linear_head_width(const Config& config, const char* key, const DecoderConfig& d) {
  const double width = config.number(key) * static_cast<double>(d.hidden_size);
  const int64_t heads = d.heads;
  if (!(width >= 1) || width > static_cast<double>(kSizeMax) || width != std::floor(width) ||
      static_cast<int64_t>(width) % heads)
    config.fail_at(key, "with it, num_heads does not divide the width of the heads");
  return static_cast<int64_t>(width) / heads;
}

// `intermediate_size`. Without the key: two thirds of hidden_ratio * hidden_size, rounded up to a
// multiple of 256.
int64_t linear_mlp_width(const Config& config, int64_t hidden) {
  const int64_t ratio = bounded(config, "hidden_ratio", config.integer("hidden_ratio", 4), 1024);
  if (config.is_number("intermediate_size")) return read_size(config, "intermediate_size");
  return (hidden * ratio * 2 / 3 + 255) / 256 * 256;
}

}  // namespace

LinearAttentionConfig read_linear_attention(const Config& config) {
  LinearAttentionConfig c;
  DecoderConfig& d = c.decoder;
  d.steady = true;
  d.names.embedding = "model.embeddings";
  d.hidden_size = read_size(config, "hidden_size");
  d.layers = read_count(config, "num_hidden_layers");
  d.heads = d.kv_heads = read_count(config, "num_heads");
  if (config.integer("num_kv_heads", d.heads) != d.heads)
    config.fail_at("num_kv_heads", "fewer key/value heads than heads are not supported");
  d.head_dim = linear_head_width(config, "expand_k", d);
  c.v_head_dim = linear_head_width(config, "expand_v", d);
  d.intermediate_size = linear_mlp_width(config, d.hidden_size);
  d.vocab_size = read_size(config, "vocab_size");
  d.eps = config.number("norm_eps");
  d.tied = config.boolean("tie_word_embeddings");
  d.eos = read_eos(config);
  c.fused_norm = config.boolean("fuse_norm");
  need_text(config, "hidden_act", "swish");
  need_boolean(config, {"use_output_gate", "elementwise_affine"}, true);
  need_boolean(config, {"use_short_conv"}, false);
  for (const char* key : {"feature_map", "attn", "attnres_block_size", "clamp_min"})
    if (config.has(key)) config.fail_at(key, "it is not supported");
  return c;
}

// The arguments of a layer's decays: a product of low rank, or fixed numbers for each head.
Args LinearAttentionModel::decays(Net& n, const DecoderStep& step, const std::string& path) const {
  const DecoderConfig& d = config_.decoder;
  if (config_.gate_rank > 0)
    return {{"gate_low_rank_dim", config_.gate_rank},
            {"gate_logit_normalizer", config_.gate_normalizer}};
  WeightSpec decay;
  decay.name = path + ".decay";  // in no checkpoint
  decay.shape = {d.heads};
  decay.compute = [heads = d.heads] {
    std::vector<double> logs;
    for (int64_t h = 0; h < heads; ++h)
      logs.push_back(std::log1p(-std::exp2(-5.0 - static_cast<double>(h))));
    return logs;
  };
  const int64_t local = d.heads / n.parallel().tp;
  if (n.parallel().tp > 1) decay.cuts = {{0, {{n.parallel().rank * local, local, d.heads}}}};
  const int64_t positions = n.limits().max_context;
  WeightSpec table;
  table.name = d.names.rotary + ".cos_sin_cache";
  table.shape = {positions, d.rope.rotary_dim};
  table.compute = [rope = d.rope, positions] { return rope_table(rope, positions); };
  return {{"max_position", positions},
          {"decay", n.weight(std::move(decay))},
          {"cos_sin_cache", n.weight(std::move(table))},
          {"positions", step.positions}};
}

void LinearAttentionModel::forward(Net& n, const std::string& phase) const {
  const DecoderConfig& d = config_.decoder;
  DecoderStep step = begin_recurrent_batch(n, phase);
  if (config_.gate_rank == 0) step.positions = n.input("positions", DType::i64, {step.tokens});
  n.common({{"num_heads", d.heads},
            {"head_dim", d.head_dim},
            {"v_head_dim", config_.v_head_dim},
            {"scale", 1 / std::sqrt(static_cast<double>(d.head_dim))},
            {"intermediate_size", d.intermediate_size},
            {"eps", d.eps}});
  if (!config_.fused_norm) n.rename({{"g_norm_swish_gate", "g_norm"}});
  look_up(n, step, d);
  step.residual = n.zeros(n.limits().dtype, {step.tokens, d.hidden_size});
  const std::vector<std::string> with(config_.gate_rank > 0 ? 1 : 0, "low_rank");
  for (int64_t i = 0; i < d.layers; ++i) {
    tap_hidden(n, step, i);
    const std::string path = layer_path(d, i);
    const auto norm = [&](const char* name) {
      return Value(n("rms_norm", path + name, {{"x", step.hidden}, {"residual", step.residual}}));
    };
    Args args = decays(n, step, path + ".attn");
    args.emplace_back("x", norm(".attn_norm"));
    // float32, because rounding at every token would lose the parts which decay slowly.
    args.emplace_back("recurrent_state", n.state(path + ".attn.recurrent_state", DType::f32,
                                                 {n.axis("N"), d.heads / n.parallel().tp,
                                                  d.head_dim, config_.v_head_dim}));
    step.hidden = n("gla_attention", path + ".attn", std::move(args), with);
    step.hidden = n("gated_mlp", path + ".mlp", {{"x", norm(".mlp_norm")}});
  }
  end_step(n, step, d);
}

}  // namespace fk::parts
