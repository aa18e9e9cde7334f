// SPDX-License-Identifier: Apache-2.0
// Qwen3-Next: most layers have a gated delta net, every fourth has attention whose output is gated,
// and all have experts beside a gated shared expert. So a request has pages and slots. Norms
// multiply by 1 + weight, except the norms of the delta nets.
#include <algorithm>
#include <cmath>

#include "baselines/models/parts/recurrent.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct Qwen3NextConfig {
  DecoderConfig decoder;
  std::vector<bool> linear, sparse;  // by layer
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, taps = 0;
  int64_t experts = 0, top_k = 0, expert_width = 0, shared_width = 0;
  bool renormalize = true;
};

void read_qwen3_next_layers(const Config& config, Qwen3NextConfig& c) {
  const int64_t layers = c.decoder.layers, step = read_count(config, "decoder_sparse_step");
  const auto dense = config.integers("mlp_only_layers", {});
  const int64_t every = bounded(config, "full_attention_interval",
                                config.integer("full_attention_interval", 4), kCountMax);
  if (config.has("layer_types")) c.linear = read_linear_layers(config, layers);
  for (int64_t i = 0; i < layers; ++i) {
    if (!config.has("layer_types")) c.linear.push_back((i + 1) % every != 0);
    const bool listed = std::find(dense.begin(), dense.end(), i) != dense.end();
    c.sparse.push_back(!listed && (i + 1) % step == 0);
  }
}

Qwen3NextConfig read_qwen3_next(const Config& config) {
  Qwen3NextConfig c;
  RopeKeys rope;
  rope.share = "partial_rotary_factor";
  rope.share_default = 0.25;
  c.decoder = read_decoder(config, false, rope);
  need_boolean(config, {"use_sliding_window"}, false);
  read_qwen3_next_layers(config, c);
  c.key_heads = read_count(config, "linear_num_key_heads");
  c.value_heads = read_count(config, "linear_num_value_heads");
  if (c.value_heads % c.key_heads)
    config.fail_at("linear_num_key_heads", "it does not divide linear_num_value_heads");
  c.key_dim = read_count(config, "linear_key_head_dim");
  c.value_dim = read_count(config, "linear_value_head_dim");
  c.taps = read_count(config, "linear_conv_kernel_dim");
  if (c.taps < 2) config.fail_at("linear_conv_kernel_dim", "a convolution has at least 2 taps");
  c.experts = read_count(config, "num_experts");
  c.top_k = read_top_k(config, c.experts);
  c.expert_width = read_size(config, "moe_intermediate_size");
  c.shared_width = read_size(config, "shared_expert_intermediate_size");
  c.renormalize = config.boolean("norm_topk_prob");
  return c;
}

class Qwen3Next : public Model {
 public:
  explicit Qwen3Next(const Config& config) : config_(read_qwen3_next(config)) {}

  std::unique_ptr<Engine> engine() const override {
    return generate_engine(decoder_options(config_.decoder));
  }

  void forward(Net& n, const std::string& phase) const override {
    const DecoderConfig& d = config_.decoder;
    n.rename({{"mlp.shared.gate", "mlp.shared_expert_gate"},
              {"mlp.shared.experts.*", "mlp.shared_expert"},
              {"linear_attn.o_norm", "linear_attn.norm"},
              {"linear_attn.o_proj", "linear_attn.out_proj"}});
    n.adapt([this](WeightSpec& spec) { adapt(spec); });
    DecoderStep step = begin_step(n, phase, d);
    begin_states(n, step);
    n.common({{"hidden_size", d.hidden_size}});
    for (int64_t i = 0; i < d.layers; ++i) {
      tap_hidden(n, step, i);
      const std::string path = layer_path(d, i);
      const auto norm = [&](const char* name) {
        return Value(n("rms_norm", path + name, {{"x", step.hidden}, {"residual", step.residual}}));
      };
      const Value x = norm(".input_layernorm");
      step.hidden = config_.linear[static_cast<size_t>(i)]
                        ? delta_net(n, path + ".linear_attn", x)
                        : attention(n, step, path + ".self_attn", x);
      const Value y = norm(".post_attention_layernorm");
      step.hidden = config_.sparse[static_cast<size_t>(i)]
                        ? mixture(n, path + ".mlp", y)
                        : Value(n("gated_mlp", path + ".mlp", {{"x", y}}));
    }
    end_step(n, step, d);
  }

  std::string refusal(const Parallel& p) const override {
    if (config_.key_heads % p.tp)
      return std::to_string(config_.key_heads) + " heads of linear attention cannot be divided";
    return decoder_refusal(config_.decoder, config_.experts, p);
  }
  std::vector<Unread> unread() const override {
    std::vector<Unread> all = unread_head(config_.decoder);
    all.push_back({"mtp.", "next-token prediction"});
    return all;
  }

 private:
  // Rows of a delta net's matrices are groups: a key head with the value heads which share it. Rows
  // of q_proj are heads, each with its queries and its gate.
  void adapt(WeightSpec& spec) const {
    const Qwen3NextConfig& c = config_;
    const int64_t width = c.decoder.hidden_size, shared = c.value_heads / c.key_heads;
    const auto rows_of = [&](const char* tensor, std::vector<PartView> views) {
      const std::string& name = spec.name;
      const size_t end = name.rfind('.', name.rfind('.') - 1);
      spec.parts = {std::vector<std::string>(views.size(), name.substr(0, end + 1) + tensor)};
      spec.views = std::move(views);
    };
    const int64_t values = shared * c.value_dim;
    const auto qkvz = [&](int64_t start, int64_t length) {
      return PartView{
          {c.key_heads, 2 * c.key_dim + 2 * values, width}, 1, start, length, {0, 1, 2}};
    };
    const auto ba = [&](int64_t start) {
      return PartView{{c.key_heads, 2 * shared, width}, 1, start, shared, {0, 1, 2}};
    };
    const auto ends = [&](const char* name) { return spec.name.ends_with(name); };
    if (ends("linear_attn.qkv_proj.weight")) {
      rows_of("in_proj_qkvz.weight",
              {qkvz(0, c.key_dim), qkvz(c.key_dim, c.key_dim), qkvz(2 * c.key_dim, values)});
    } else if (ends("linear_attn.g_b_proj.weight")) {
      rows_of("in_proj_qkvz.weight", {qkvz(2 * c.key_dim + values, values)});
    } else if (ends("linear_attn.b_proj.weight")) {
      rows_of("in_proj_ba.weight", {ba(0)});
    } else if (ends("linear_attn.f_b_proj.weight")) {
      rows_of("in_proj_ba.weight", {ba(shared)});
    } else if (ends("linear_attn.conv1d.weight")) {
      spec.parts.clear();
    } else if (ends("self_attn.qkv_proj.weight")) {
      spec.views = {q_rows(0), plain_rows(), plain_rows()};
    }
    if (spec.name.find(".shared.experts.") != std::string::npos) spec.stacked = true;
    // 1 + weight has more digits than 16 bits hold, so it is float32.
    if (ends("norm.weight") && !ends("linear_attn.norm.weight")) {
      spec.dtype = DType::f32, spec.mean = 0;
      spec.map = [](double x) { return x + 1; };
    }
  }
  // The queries (half 0) or the gates of q_proj; the rows of k_proj, and of v_proj.
  PartView q_rows(int64_t half) const {
    const DecoderConfig& d = config_.decoder;
    return {{d.heads, 2, d.head_dim, d.hidden_size}, 1, half, 1, {0, 1, 2, 3}};
  }
  PartView plain_rows() const {
    const DecoderConfig& d = config_.decoder;
    return {{d.kv_heads, d.head_dim, d.hidden_size}, 0, 0, d.kv_heads, {0, 1, 2}};
  }

  Value delta_net(Net& n, const std::string& path, Value x) const {
    const Qwen3NextConfig& c = config_;
    return n("gated_delta_net", path,
             {{"num_heads", c.value_heads},
              {"num_k_heads", c.key_heads},
              {"head_dim", c.key_dim},
              {"v_head_dim", c.value_dim},
              {"gate_dim", 1},
              {"kernel_size", c.taps},
              {"scale", 1 / std::sqrt(static_cast<double>(c.key_dim))},
              {"x", x},
              // float32, because rounding at every token would lose the parts which decay slowly.
              {"recurrent_state",
               n.state(path + ".recurrent_state", DType::f32,
                       {n.axis("N"), c.value_heads / n.parallel().tp, c.key_dim, c.value_dim})}});
  }

  // A rank's rows of the gates of all heads.
  Value gate_weight(Net& n, const std::string& path) const {
    const DecoderConfig& d = config_.decoder;
    WeightSpec spec;
    spec.name = path + ".gate_proj.weight";
    spec.dtype = n.limits().weights();
    spec.shape = {d.heads * d.head_dim, d.hidden_size};
    spec.parts = {{path + ".q_proj.weight"}};
    spec.views = {q_rows(1)};
    const int64_t all = spec.shape[0], local = all / n.parallel().tp;
    if (n.parallel().tp > 1) spec.cuts = {{0, {{n.parallel().rank * local, local, all}}}};
    return n.weight(std::move(spec));
  }

  Value attention(Net& n, const DecoderStep& step, const std::string& path, Value x) const {
    const DecoderConfig& d = config_.decoder;
    const int64_t heads = d.heads / n.parallel().tp;
    const int64_t kv_heads = std::max<int64_t>(1, d.kv_heads / n.parallel().tp);
    const Value all = n("linear", path + ".qkv_proj",
                        {{"weight", n.find("self_attention", path, "qkv")}, {"x", x}});
    const auto part = [&](int64_t first, int64_t count) {
      return n.reshape(n.slice(all, 1, first * d.head_dim, count * d.head_dim),
                       {step.tokens, count, d.head_dim});
    };
    const Value q = part(0, heads), k = part(heads, kv_heads), v = part(heads + kv_heads, kv_heads);
    n("qk_rms_norm", path + ".qk_norm",
      {{"q_weight", n.find("self_attention", path, "q_norm")},
       {"k_weight", n.find("self_attention", path, "k_norm")},
       {"q", q},
       {"k", k}});
    n("rotary_embedding", path + ".rotary_emb", {{"q", q}, {"k", k}});
    const auto cache = [&](const char* name) {
      return n.state(path + "." + name, n.limits().cache_dtype,
                     {n.axis("P"), n.limits().page_size, kv_heads, d.head_dim});
    };
    const Value k_cache = cache("k_cache"), v_cache = cache("v_cache");
    n("kv_cache_append", path + ".kv_cache",
      {{"k", k}, {"v", v}, {"k_cache", k_cache}, {"v_cache", v_cache}});
    const Value mixed = n("paged_attention", path + ".attn",
                          {{"q", q}, {"k_cache", k_cache}, {"v_cache", v_cache}});
    const Dims rows{step.tokens, heads * d.head_dim};
    const Value gate =
        n("linear", path + ".gate_proj", {{"weight", gate_weight(n, path)}, {"x", x}});
    const Value both =
        n("concat", path + ".gated",
          {{"num_parts", 2},
           {"size", heads * d.head_dim},
           {"x", std::vector<Value>{gate, n.reshape(mixed, rows)}},
           {"out", n.empty(n.limits().dtype, {step.tokens, 2 * heads * d.head_dim})}});
    const Value gated = n("activation_and_mul", path + ".sigmoid",
                          {{"kind", "sigmoid"}, {"size", heads * d.head_dim}, {"x", both}});
    const Value out = n("linear", path + ".o_proj",
                        {{"weight", n.find("self_attention", path, "o")}, {"x", gated}});
    if (n.parallel().tp == 1) return out;
    return n("all_reduce", path + ".o_proj.all_reduce",
             {{"comm", n.parallel().ranks()}, {"x", out}});
  }

  // The experts, and a mixture of one expert whose weight is the sigmoid of the shared expert's
  // gate.
  Value mixture(Net& n, const std::string& path, Value x) const {
    const Qwen3NextConfig& c = config_;
    const Value routed = n("deepseek_moe", path,
                           {{"intermediate_size", c.expert_width},
                            {"num_experts", c.experts},
                            {"top_k", c.top_k},
                            {"scoring_func", "softmax"},
                            {"renormalize", c.renormalize},
                            {"x", x}});
    const Value shared = n("deepseek_moe", path + ".shared",
                           {{"intermediate_size", c.shared_width},
                            {"num_experts", 1},
                            {"top_k", 1},
                            {"scoring_func", "sigmoid"},
                            {"renormalize", false},
                            {"x", x}});
    return n("add", path + ".add", {{"a", routed}, {"b", shared}});
  }

  Qwen3NextConfig config_;
};

std::unique_ptr<Model> make_qwen3_next(const Config& config) {
  return std::make_unique<Qwen3Next>(config);
}

FK_MODEL(qwen3_next, make_qwen3_next, {"Qwen3NextForCausalLM"}, {"qwen3_next"});

}  // namespace
}  // namespace fk
