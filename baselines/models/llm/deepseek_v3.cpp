// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V3: latent attention with absorbed up-projections over a cache of latents, some dense
// layers, then mixtures of experts that are chosen by groups, with shared experts. Checkpoints may
// be f8e4m3 in blocks. The layers that predict further tokens are not part of it.
#include <cmath>
#include <nlohmann/json.hpp>

#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/fp8.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct DeepseekConfig {
  DecoderConfig decoder;
  Fp8 fp8;
  int64_t q_rank = 0, kv_rank = 0, nope = 0, rotary = 0, values = 0;  // widths of attention
  bool interleaved = true;
  double scale = 1;
  int64_t dense_layers = 0, moe_hidden = 0, shared_hidden = 0;
  int64_t experts = 0, top_k = 0, groups = 1, kept_groups = 1;
  bool renormalize = true;
  double routed_scale = 1;
  int64_t next_tokens = 0;  // layers that predict further tokens, behind the others
};

void read_attention(const Config& config, DeepseekConfig& c) {
  c.q_rank = config.has("q_lora_rank") ? read_size(config, "q_lora_rank") : 0;
  c.kv_rank = read_size(config, "kv_lora_rank");
  c.nope = read_count(config, "qk_nope_head_dim");
  c.rotary = read_count(config, "qk_rope_head_dim");
  c.values = read_count(config, "v_head_dim");
  c.interleaved = config.boolean("rope_interleave");
  const auto width = static_cast<double>(c.nope + c.rotary);
  c.scale = c.decoder.rope.score_scale / std::sqrt(width);
  // A file may also hold keys that follow from other keys.
  need_number(config, "head_dim", static_cast<double>(c.rotary));
  need_number(config, "qk_head_dim", width);
  need_number(config, "num_key_value_heads", static_cast<double>(c.decoder.heads));
}

void read_experts(const Config& config, DeepseekConfig& c) {
  c.dense_layers = config.integer("first_k_dense_replace");
  c.moe_hidden = read_size(config, "moe_intermediate_size");
  c.experts = read_count(config, "n_routed_experts");
  c.top_k = read_top_k(config, c.experts);
  c.groups = read_count(config, "n_group");
  c.kept_groups = read_count(config, "topk_group");
  const int64_t shared = config.integer("n_shared_experts");
  if (shared != 0) bounded(config, "n_shared_experts", shared, kCountMax);
  c.shared_hidden = shared * c.moe_hidden;
  c.renormalize = config.boolean("norm_topk_prob");
  c.routed_scale = config.number("routed_scaling_factor");
  if (c.experts % c.groups != 0) config.fail_at("n_group", "it does not divide n_routed_experts");
  if (c.kept_groups > c.groups) config.fail_at("topk_group", "it is more than n_group");
  if (c.top_k > c.kept_groups * (c.experts / c.groups))
    config.fail_at("num_experts_per_tok", "the chosen groups do not hold so many");
  c.next_tokens = config.integer("num_nextn_predict_layers", 0);
  if (c.next_tokens != 0) bounded(config, "num_nextn_predict_layers", c.next_tokens, kCountMax);
  need_text(config, "scoring_func", "sigmoid");
  need_text(config, "topk_method", "noaux_tc");
  need_number(config, "moe_layer_freq", 1);
}

DeepseekConfig read_deepseek_v3(const Config& config) {
  DeepseekConfig c;
  // The only rotated part of a head is this one, whatever hidden_size / heads may be.
  const std::string rotary = std::to_string(read_count(config, "qk_rope_head_dim"));
  c.decoder =
      read_decoder(config.with(parse_json("{\"head_dim\": " + rotary + "}", config.where())));
  c.fp8 = read_fp8(config);
  read_attention(config, c);
  read_experts(config, c);
  return c;
}

class DeepseekV3 : public Model {
 public:
  explicit DeepseekV3(const Config& config) : config_(read_deepseek_v3(config)) {}

  std::vector<std::string> phases() const override { return {"prefill", "decode"}; }

  void forward(Builder& b, const std::string& phase, const Limits& limits) const override {
    const DecoderStep step = begin_step(b, phase, config_.decoder, limits);
    for (int64_t i = 0; i < config_.decoder.layers; ++i) {
      tap_hidden(b, step, i);
      const bool dense = i < config_.dense_layers;
      Args args = attention_args(b, step, limits, i);
      if (dense)
        add_mlp(args, b, limits.weights(), layer_path(i) + ".mlp.", "",
                config_.decoder.intermediate_size);
      else
        add_experts(args, b, limits.weights(), layer_path(i) + ".mlp.");
      b.call(dense ? "mla_decoder_layer" : "mla_moe_decoder_layer", layer_path(i), args);
    }
    end_step(b, step, config_.decoder, limits);
  }

  void drive(Session& session) const override { generate(session, {config_.decoder.eos}); }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    return decoder_axis_limit(phase, axis, limits);
  }
  int64_t vocab_size() const override { return config_.decoder.vocab_size; }
  int64_t max_positions() const override { return config_.decoder.max_position; }
  std::vector<Unread> unread() const override {
    std::vector<Unread> all = unread_head(config_.decoder);
    for (int64_t i = 0; i < config_.next_tokens; ++i)
      all.push_back({layer_path(config_.decoder.layers + i) + ".", "next-token prediction"});
    return all;
  }

 private:
  Args attention_args(Builder& b, const DecoderStep& step, const Limits& limits,
                      int64_t layer) const;
  void add_attention_weights(Args& args, Builder& b, DType dtype, const std::string& path) const;
  // gate_up and down of a gated MLP, the slots' names after `prefix`.
  void add_mlp(Args& args, Builder& b, DType dtype, const std::string& path,
               const std::string& prefix, int64_t hidden) const;
  void add_experts(Args& args, Builder& b, DType dtype, const std::string& path) const;

  DeepseekConfig config_;
};

Args DeepseekV3::attention_args(Builder& b, const DecoderStep& step, const Limits& limits,
                                int64_t layer) const {
  const std::string path = layer_path(layer);
  const DecoderConfig& d = config_.decoder;
  const auto norm = [&](const char* name) {
    return b.weight(norm_weight(path + name, limits.weights(), d.hidden_size));
  };
  Args args = {
      {"hidden_size", d.hidden_size},
      {"num_heads", d.heads},
      {"q_lora_rank", config_.q_rank},
      {"kv_lora_rank", config_.kv_rank},
      {"qk_nope_head_dim", config_.nope},
      {"qk_rope_head_dim", config_.rotary},
      {"v_head_dim", config_.values},
      {"page_size", limits.page_size},
      {"max_position", table_positions(d, limits)},
      {"interleaved", config_.interleaved},
      {"scale", config_.scale},
      {"eps", d.eps},
      {"block_n", config_.fp8.rows},
      {"block_k", config_.fp8.columns},
      {"quantize_input", config_.fp8.quantize_input},
      {"input_norm", norm(".input_layernorm.weight")},
      {"post_norm", norm(".post_attention_layernorm.weight")},
      {"cos_sin_cache", step.cos_sin},
      {"positions", step.positions},
      {"kv_cache", b.state(path + ".self_attn.kv_cache", limits.cache_dtype,
                           {b.axis("P"), limits.page_size, config_.kv_rank + config_.rotary})},
      {"block_tables", step.block_tables},
      {"cu_seqlens", step.cu_seqlens},
      {"seq_lens", step.seq_lens},
      {"slot_mapping", step.slot_mapping},
      {"max_query_len", step.max_query_len},
      {"max_seq_len", step.max_seq_len},
      {"hidden", step.hidden},
      {"residual", step.residual}};
  add_attention_weights(args, b, limits.weights(), path + ".self_attn.");
  return args;
}

void DeepseekV3::add_attention_weights(Args& args, Builder& b, DType dtype,
                                       const std::string& path) const {
  const int64_t channels = config_.decoder.hidden_size, heads = config_.decoder.heads;
  const int64_t q_rank = config_.q_rank, kv_rank = config_.kv_rank, nope = config_.nope;
  const int64_t width = nope + config_.rotary, values = config_.values;
  const Fp8& fp8 = config_.fp8;
  const std::string kv_a = path + "kv_a_proj_with_mqa.weight";
  const std::vector<std::string> all = {path + "q_a_proj.weight", kv_a};
  const int64_t cached = kv_rank + config_.rotary;
  if (q_rank > 0) {
    add_projection(
        args, b, fp8, dtype, "qkv_a",
        matrix(path + "fused_qkv_a_proj.weight", dtype, {q_rank + cached, channels}, all),
        {q_rank, cached});
    args.emplace_back("q_a_norm",
                      b.weight(norm_weight(path + "q_a_layernorm.weight", dtype, q_rank)));
  } else {
    add_projection(args, b, fp8, dtype, "qkv_a", matrix(kv_a, dtype, {cached, channels}, {}),
                   {cached});
  }
  add_projection(args, b, fp8, dtype, "q_b",
                 matrix(path + (q_rank > 0 ? "q_b_proj.weight" : "q_proj.weight"), dtype,
                        {heads * width, q_rank > 0 ? q_rank : channels}, {}),
                 {heads * width});
  args.emplace_back("kv_a_norm",
                    b.weight(norm_weight(path + "kv_a_layernorm.weight", dtype, kv_rank)));
  // kv_b is [heads, nope + values, kv_rank]: its rows of keys are absorbed by queries, transposed.
  const auto absorbed = [&](const char* name, std::vector<int64_t> shape, int64_t start,
                            int64_t length, std::vector<int> order) {
    WeightSpec spec = matrix(path + name, dtype, std::move(shape), {path + "kv_b_proj.weight"});
    spec.view = PartView{{heads, nope + values, kv_rank}, 1, start, length, std::move(order)};
    spec.stddev = 1 / std::sqrt(static_cast<double>(kv_rank));
    return b.weight(std::move(spec));
  };
  args.emplace_back("w_uk", absorbed("w_uk", {heads, kv_rank, nope}, 0, nope, {0, 2, 1}));
  args.emplace_back("w_uv", absorbed("w_uv", {heads, values, kv_rank}, nope, values, {0, 1, 2}));
  add_projection(args, b, fp8, dtype, "o",
                 matrix(path + "o_proj.weight", dtype, {channels, heads * values}, {}), {channels});
}

void DeepseekV3::add_mlp(Args& args, Builder& b, DType dtype, const std::string& path,
                         const std::string& prefix, int64_t hidden) const {
  const int64_t channels = config_.decoder.hidden_size;
  if (prefix.empty()) args.emplace_back("intermediate_size", hidden);
  add_projection(args, b, config_.fp8, dtype, prefix + "gate_up",
                 matrix(path + "gate_up_proj.weight", dtype, {2 * hidden, channels},
                        {path + "gate_proj.weight", path + "up_proj.weight"}),
                 {hidden, hidden});
  add_projection(args, b, config_.fp8, dtype, prefix + "down",
                 matrix(path + "down_proj.weight", dtype, {channels, hidden}, {}), {channels});
}

void DeepseekV3::add_experts(Args& args, Builder& b, DType dtype, const std::string& path) const {
  const int64_t channels = config_.decoder.hidden_size, hidden = config_.moe_hidden;
  WeightSpec w13 =
      matrix(path + "experts.w13.weight", dtype, {config_.experts, 2 * hidden, channels}, {});
  WeightSpec w2 =
      matrix(path + "experts.w2.weight", dtype, {config_.experts, channels, hidden}, {});
  w13.stacked = w2.stacked = true;
  for (int64_t e = 0; e < config_.experts; ++e) {
    const std::string expert = path + "experts." + std::to_string(e);
    w13.parts.push_back({expert + ".gate_proj.weight", expert + ".up_proj.weight"});
    w2.parts.push_back({expert + ".down_proj.weight"});
  }
  WeightSpec bias =
      matrix(path + "gate.e_score_correction_bias", DType::f32, {config_.experts}, {});
  bias.stddev = 0.1;
  const Args scalars = {{"intermediate_size", hidden},
                        {"num_experts", config_.experts},
                        {"top_k", config_.top_k},
                        {"num_expert_group", config_.groups},
                        {"topk_group", config_.kept_groups},
                        {"scoring_func", "sigmoid"},
                        {"renormalize", config_.renormalize},
                        {"routed_scaling_factor", config_.routed_scale},
                        {"shared_intermediate_size", config_.shared_hidden}};
  args.insert(args.end(), scalars.begin(), scalars.end());
  args.emplace_back("gate",
                    b.weight(matrix(path + "gate.weight", dtype, {config_.experts, channels}, {})));
  args.emplace_back("e_score_correction_bias", b.weight(std::move(bias)));
  add_projection(args, b, config_.fp8, dtype, "w13", std::move(w13), {hidden, hidden});
  add_projection(args, b, config_.fp8, dtype, "w2", std::move(w2), {channels});
  if (config_.shared_hidden > 0)
    add_mlp(args, b, dtype, path + "shared_experts.", "shared_", config_.shared_hidden);
}

std::unique_ptr<Model> make_deepseek_v3(const Config& config) {
  return std::make_unique<DeepseekV3>(config);
}

FK_MODEL(deepseek_v3, make_deepseek_v3, {"DeepseekV3ForCausalLM"}, {"deepseek_v3"},
         {"aux_loss_alpha", "ep_size", "num_mtp_layers", "seq_aux"});

}  // namespace
}  // namespace fk
