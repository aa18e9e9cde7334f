// SPDX-License-Identifier: Apache-2.0
// Gemma 4 without images. Full layers have wider heads than sliding ones, and a part of each head
// turns; in some models their values are the products of keys. The last layers may have the keys
// and values of earlier ones. An MLP may have experts beside it. Each layer may see an embedding of
// its own, and multiplies its output by a number.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct Gemma4Layer {
  int64_t head_dim = 0, kv_heads = 0, window = 0, mlp_width = 0;
  bool full = false;
  bool k_eq_v = false;  // values are the products of keys
  int64_t keys_of = 0;  // the layer whose keys and values it has; often itself
};

struct Gemma4Config {
  DecoderConfig decoder;
  std::vector<Gemma4Layer> layers;
  Rope full_rope;
  int64_t experts = 0, top_k = 0, expert_width = 0;  // no experts: an MLP alone
  int64_t own_width = 0, own_vocab = 0;              // of the embeddings of layers; 0: none
  double cap = 0;
};

// Full layers have their own sizes, in keys of checkpoints or in a list of the library by layer.
void read_gemma4_heads(const Config& config, Gemma4Config& c) {
  const DecoderConfig& d = c.decoder;
  const bool k_eq_v = config.boolean("attention_k_eq_v");
  const int64_t head_dim =
      bounded(config, "global_head_dim", config.integer("global_head_dim", 512), kCountMax);
  const int64_t own = config.integer("num_global_key_value_heads", d.kv_heads);
  const bool listed = config.has("per_layer_config");
  const Config by_layer = listed ? config.child("per_layer_config") : config;
  for (size_t i = 0; i < d.windows.size(); ++i) {
    Gemma4Layer layer{d.head_dim, d.kv_heads, d.windows[i], d.intermediate_size};
    layer.full = layer.window == 0;
    layer.k_eq_v = layer.full && k_eq_v;
    layer.keys_of = static_cast<int64_t>(i);
    if (layer.full && !listed) layer.head_dim = head_dim;
    if (layer.full && !listed && k_eq_v) layer.kv_heads = own;
    if (const std::string key = std::to_string(i); listed && by_layer.has(key)) {
      const Config sizes = by_layer.child(key);
      layer.head_dim = sizes.integer("head_dim", d.head_dim);
      layer.kv_heads = sizes.integer("num_key_value_heads", d.kv_heads);
    }
    bounded(config, "global_head_dim", layer.head_dim, kCountMax);
    if (layer.kv_heads < 1 || d.heads % layer.kv_heads)
      config.fail_at("num_global_key_value_heads", "it does not divide num_attention_heads");
    c.layers.push_back(layer);
  }
}

// The last `num_kv_shared_layers` have the keys of the last layer of their kind before them.
void read_gemma4_shares(const Config& config, Gemma4Config& c) {
  const auto layers = static_cast<int64_t>(c.layers.size());
  const int64_t shared = config.integer("num_kv_shared_layers");
  if (shared < 0 || shared >= layers)
    config.fail_at("num_kv_shared_layers", "it must be below the number of layers");
  const bool double_wide = config.boolean("use_double_wide_mlp");
  for (int64_t i = layers - shared; i < layers; ++i) {
    Gemma4Layer& layer = c.layers[static_cast<size_t>(i)];
    int64_t from = layers - shared - 1;
    while (from >= 0 && c.layers[static_cast<size_t>(from)].full != layer.full) --from;
    if (from < 0)
      config.fail_at("num_kv_shared_layers",
                     "no earlier layer has the kind of layer " + std::to_string(i));
    layer.keys_of = from;
    if (double_wide) layer.mlp_width *= 2;
  }
}

Gemma4Config read_gemma4(const Config& given) {
  const Json usual_ropes{
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000}}},
      {"full_attention",
       {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1e6}}}};
  const Config library = given.or_else(Json{{"rope_theta", 10000}});
  const Config config = library.has("rope_parameters")
                            ? library
                            : library.with(Json{{"rope_parameters", usual_ropes}});
  Gemma4Config c;
  RopeKeys rope;
  rope.share = "partial_rotary_factor";
  rope.layer_type = "sliding_attention";
  c.decoder = read_decoder(config, false, rope);
  DecoderConfig& d = c.decoder;
  need_text(config, "hidden_activation", "gelu_pytorch_tanh");
  // The other value is about tokens of images.
  if (config.has("use_bidirectional_attention"))
    need_text(config, "use_bidirectional_attention", "vision");
  if (config.has("layer_types")) {
    slide_layers(config, read_window(config), d);
  } else {
    for (int64_t i = 0; i < d.layers; ++i)
      d.windows[static_cast<size_t>(i)] = (i + 1) % 6 ? read_window(config) : 0;
  }
  if (d.windows.back() != 0) config.fail_at("layer_types", "the last layer must be full_attention");
  read_gemma4_heads(config, c);
  read_gemma4_shares(config, c);
  rope.layer_type = "full_attention";
  c.full_rope = read_rope(config, c.layers.back().head_dim, rope);
  if (config.boolean("enable_moe_block")) {
    c.experts = read_count(config, "num_experts");
    c.top_k = bounded(config, "top_k_experts", config.integer("top_k_experts"), c.experts);
    c.expert_width = read_size(config, "moe_intermediate_size");
  } else {
    for (const char* key : {"num_experts", "top_k_experts", "moe_intermediate_size"})
      config.ignore(key);
  }
  if (config.integer("hidden_size_per_layer_input") > 0) {
    c.own_width = read_size(config, "hidden_size_per_layer_input");
    c.own_vocab = read_size(config, "vocab_size_per_layer_input");
  } else {
    config.ignore("vocab_size_per_layer_input");
  }
  c.cap = config.number("final_logit_softcapping", 0);
  return c;
}

class Gemma4 : public Model {
 public:
  explicit Gemma4(const Config& config) : c_(read_gemma4(config)) {}

  std::unique_ptr<Engine> engine() const override {
    return generate_engine(decoder_options(c_.decoder));
  }
  void forward(Net& n, const std::string& phase) const override;

  std::string refusal(const Parallel& p) const override {
    if (p.ep > 1 && c_.experts > 0) return "experts with gelu cannot be divided";
    for (const Gemma4Layer& layer : c_.layers) {
      DecoderConfig d = c_.decoder;
      d.kv_heads = layer.kv_heads;
      if (std::string why = decoder_refusal(d, c_.experts, p); !why.empty()) return why;
    }
    return "";
  }
  std::vector<Unread> unread() const override {
    std::vector<Unread> all = unread_head(c_.decoder);
    for (size_t i = 0; i < c_.layers.size(); ++i) {
      if (c_.layers[i].keys_of == static_cast<int64_t>(i)) continue;
      for (const char* name : {"k_proj.", "v_proj.", "k_norm."})
        all.push_back({layer_path(c_.decoder, static_cast<int64_t>(i)) + ".self_attn." + name,
                       "keys and values of a layer with those of another", ""});
    }
    return all;
  }

 private:
  // One phase while it is recorded.
  struct Phase {
    Net& n;
    DecoderStep step;
    Value stream;            // the residual stream, whole on every rank
    Value sliding, full;     // tables of positions
    std::vector<Value> own;  // by layer: what it sees beside the stream
  };

  const Gemma4Layer& at(int64_t layer) const { return c_.layers[static_cast<size_t>(layer)]; }

  static Value norm(Phase& p, const std::string& path, Value x) {
    return p.n("rms_norm", path, {{"x", x}});
  }
  static Value scaled(Phase& p, const std::string& path, Value y, double scale, Value x = {}) {
    Args args{{"scale", scale}, {"y", y}};
    if (x) args.emplace_back("x", x);
    return p.n("scaled_add", path, args);
  }
  // A product of which every rank has a share, summed up.
  static Value share_of(Phase& p, const std::string& path, Value weight, Value x) {
    const Value part = p.n("linear", path, {{"weight", weight}, {"x", x}});
    if (p.n.parallel().tp == 1) return part;
    return p.n("all_reduce", path + ".all_reduce", {{"comm", p.n.parallel().ranks()}, {"x", part}});
  }

  Value table(Net& n, const char* name, const Rope& rope) const {
    const int64_t positions = table_positions(c_.decoder, n.limits());
    WeightSpec spec;
    spec.name = c_.decoder.names.rotary + name;
    spec.shape = {positions, rope.rotary_dim};
    spec.compute = [rope, positions] { return rope_table(rope, positions); };
    return n.weight(std::move(spec));
  }

  void layer(Phase& p, int64_t i) const;
  Value project(Phase& p, const std::string& path, int64_t heads, int64_t width, Value x) const;
  Value attention(Phase& p, int64_t i, const std::string& path, Value x) const;
  Value mlp(Phase& p, const std::string& path, int64_t width, Value x) const;
  Value mixture(Phase& p, const std::string& path) const;
  std::vector<Value> own_inputs(Phase& p) const;
  Value own_part(Phase& p, int64_t i, const std::string& path) const;

  const Gemma4Config c_;
};

void Gemma4::forward(Net& n, const std::string& phase) const {
  const DecoderConfig& d = c_.decoder;
  n.adapt([](WeightSpec& spec) {
    const auto all_experts = [&](const char* contract, const char* tensor) {
      const size_t end = spec.name.rfind(contract);
      if (end == std::string::npos) return;
      spec.parts = {{spec.name.substr(0, end) + tensor}};
      spec.stacked = false;
    };
    all_experts("experts.w13.weight", "experts.gate_up_proj");
    all_experts("experts.w2.weight", "experts.down_proj");
  });
  Phase p{n, begin_batch(n, phase), {}, {}, {}, {}};
  n.common(
      {{"hidden_size", d.hidden_size}, {"num_heads", d.heads}, {"scale", 1.0}, {"eps", d.eps}});
  p.sliding = table(n, ".cos_sin_cache", d.rope);
  p.full = table(n, ".cos_sin_cache.full", c_.full_rope);
  look_up(n, p.step, d);
  p.stream = scaled(p, d.names.embedding + ".scale", p.step.hidden,
                    std::sqrt(static_cast<double>(d.hidden_size)));
  if (c_.own_width > 0) p.own = own_inputs(p);
  for (int64_t i = 0; i < d.layers; ++i) layer(p, i);
  const Value x = norm(p, d.names.norm, p.stream);
  n.tap("hidden." + std::to_string(d.layers), {x});
  Value logits = wanted_logits(n, p.step, x, d);
  if (c_.cap > 0)
    logits = n("activation", d.names.head + ".softcap",
               {{"kind", "softcap"}, {"alpha", c_.cap}, {"x", logits}});
  sample(n, p.step, logits);
}

void Gemma4::layer(Phase& p, int64_t i) const {
  const DecoderConfig& d = c_.decoder;
  Net& n = p.n;
  n.tap("hidden." + std::to_string(i), {p.stream});
  const std::string path = layer_path(d, i);
  const Value attended =
      norm(p, path + ".post_attention_layernorm",
           attention(p, i, path + ".self_attn", norm(p, path + ".input_layernorm", p.stream)));
  // Adds the attention to the stream.
  const Value x =
      n("rms_norm", path + ".pre_feedforward_layernorm", {{"x", attended}, {"residual", p.stream}});
  Value y = mlp(p, path + ".mlp", at(i).mlp_width, x);
  if (c_.experts > 0)
    y = n("add", path + ".experts.add",
          {{"a", norm(p, path + ".post_feedforward_layernorm_1", y)},
           {"b", norm(p, path + ".post_feedforward_layernorm_2", mixture(p, path))}});
  y = norm(p, path + ".post_feedforward_layernorm", y);
  p.stream = n("add", path + ".add", {{"a", p.stream}, {"b", y}});
  if (c_.own_width > 0)
    p.stream =
        n("add", path + ".per_layer_input.add", {{"a", p.stream}, {"b", own_part(p, i, path)}});
  WeightSpec scalar;
  scalar.name = path + ".layer_scalar";
  scalar.dtype = n.limits().weights();
  scalar.shape = {1, d.hidden_size};
  scalar.mean = 1, scalar.stddev = 0.1;
  // One number for every channel.
  const std::vector<std::string> again(static_cast<size_t>(d.hidden_size), scalar.name);
  scalar.parts = {again};
  scalar.stacked = true;
  p.stream = n("scaled_add", path + ".layer_scalar",
               {{"scale", 1.0}, {"y", p.stream}, {"gate", n.weight(std::move(scalar))}});
}

// The product [T, heads of this rank, width] of x and a weight whose rows are heads.
Value Gemma4::project(Phase& p, const std::string& path, int64_t heads, int64_t width,
                      Value x) const {
  const Parallel& ranks = p.n.parallel();
  const int64_t local = std::max<int64_t>(1, heads / ranks.tp);
  WeightSpec spec;
  spec.name = path + ".weight";
  spec.dtype = p.n.limits().weights();
  spec.shape = {heads * width, c_.decoder.hidden_size};
  const int64_t first = ranks.rank * heads / ranks.tp;
  if (ranks.tp > 1) spec.cuts = {{0, {{first * width, local * width, heads * width}}}};
  const Value y = p.n("linear", path, {{"weight", p.n.weight(std::move(spec))}, {"x", x}});
  return p.n.reshape(y, {p.step.tokens, local, width});
}

Value Gemma4::attention(Phase& p, int64_t i, const std::string& path, Value x) const {
  Net& n = p.n;
  const Gemma4Layer& l = at(i);
  n.common({{"head_dim", l.head_dim}, {"num_kv_heads", l.kv_heads}, {"window", l.window}});
  const std::string keys = layer_path(c_.decoder, l.keys_of) + ".self_attn";
  const int64_t kv_heads = std::max<int64_t>(1, l.kv_heads / n.parallel().tp);
  const auto cache = [&](const char* name) {
    return n.state(keys + name, n.limits().cache_dtype,
                   {n.axis("P"), n.limits().page_size, kv_heads, l.head_dim});
  };
  const Value k_cache = cache(".k_cache"), v_cache = cache(".v_cache");
  const Value cos_sin = l.full ? p.full : p.sliding;
  const auto head_norm = [&](const char* field) { return n.find("self_attention", path, field); };
  Value q = project(p, path + ".q_proj", c_.decoder.heads, l.head_dim, x);
  const Dims shape = n.shape(q);
  if (l.keys_of == i) {
    const Value k = project(p, path + ".k_proj", l.kv_heads, l.head_dim, x);
    Value v = l.k_eq_v ? k : project(p, path + ".v_proj", l.kv_heads, l.head_dim, x);
    const Dims heads = n.shape(v);
    v = n.reshape(n("rms_norm", path + ".v_norm",
                    {{"x", n.reshape(v, {heads[0] * heads[1], heads[2]})}, {"weight", Value{}}}),
                  heads);
    n("qk_rms_norm", path + ".qk_norm",
      {{"q_weight", head_norm("q_norm")}, {"k_weight", head_norm("k_norm")}, {"q", q}, {"k", k}});
    n("rotary_embedding", path + ".rotary_emb", {{"cos_sin_cache", cos_sin}, {"q", q}, {"k", k}});
    n("kv_cache_append", path + ".kv_cache",
      {{"k", k}, {"v", v}, {"k_cache", k_cache}, {"v_cache", v_cache}});
  } else {
    q = n.reshape(
        n("rms_norm", path + ".q_norm",
          {{"x", n.reshape(q, {shape[0] * shape[1], shape[2]})}, {"weight", head_norm("q_norm")}}),
        shape);
    // The op turns keys too, so it gets zeros.
    n("rotary_embedding", path + ".rotary_emb",
      {{"cos_sin_cache", cos_sin}, {"q", q}, {"k", n.zeros(n.dtype(q), {shape[0], 1, shape[2]})}});
  }
  const Value mixed =
      n("paged_attention", path + ".attn", {{"q", q}, {"k_cache", k_cache}, {"v_cache", v_cache}});
  return share_of(p, path + ".o_proj", n.find("self_attention", path, "o"),
                  n.reshape(mixed, {shape[0], shape[1] * shape[2]}));
}

Value Gemma4::mlp(Phase& p, const std::string& path, int64_t width, Value x) const {
  Net& n = p.n;
  n.common({{"intermediate_size", width}});
  const Value wide = n("linear", path + ".gate_up_proj",
                       {{"weight", n.find("gated_mlp", path, "gate_up")}, {"x", x}});
  const Value activated =
      n("activation_and_mul", path + ".act_fn",
        {{"size", n.shape(wide)[1].value() / 2}, {"kind", "gelu_tanh"}, {"x", wide}});
  return share_of(p, path + ".down_proj", n.find("gated_mlp", path, "down"), activated);
}

// The experts, of the stream. The router sees a norm of its own.
Value Gemma4::mixture(Phase& p, const std::string& path) const {
  Net& n = p.n;
  const DecoderConfig& d = c_.decoder;
  n.common({{"intermediate_size", c_.expert_width},
            {"num_experts", c_.experts},
            {"top_k", c_.top_k},
            {"renormalize", true},
            {"activation", "gelu_tanh"}});
  const std::string router = path + ".router";
  WeightSpec scale;
  scale.name = router + ".scale";
  scale.dtype = n.limits().weights();
  scale.shape = {d.hidden_size};
  scale.mean = 1, scale.stddev = 0.1;
  const Value seen =
      n("rms_norm", router + ".norm", {{"weight", n.weight(std::move(scale))}, {"x", p.stream}});
  const Value scores =
      n("linear", router + ".proj", {{"x", seen}, {"out_features", c_.experts}, {"out", "f32"}});
  const Value logits =
      scaled(p, router + ".root", scores, 1 / std::sqrt(static_cast<double>(d.hidden_size)));
  WeightSpec factors;
  factors.name = router + ".per_expert_scale";
  factors.shape = {c_.experts};
  factors.mean = 1, factors.stddev = 0.1;
  const Outputs chosen = n("topk_softmax", router,
                           {{"logits", logits}, {"expert_scale", n.weight(std::move(factors))}});
  return n("fused_moe", path + ".experts",
           {{"w13", n.find("moe_block", path, "w13")},
            {"w2", n.find("moe_block", path, "w2")},
            {"x", norm(p, path + ".pre_feedforward_layernorm_2", p.stream)},
            {"topk_weights", chosen["topk_weights"]},
            {"topk_ids", chosen["topk_ids"]}});
}

// By layer [T, own_width]: its embedding of the token, and its product of the model's embedding.
std::vector<Value> Gemma4::own_inputs(Phase& p) const {
  Net& n = p.n;
  const DecoderConfig& d = c_.decoder;
  const Value ids = n.input("ids", DType::i64, {p.step.tokens});
  const auto part = [&](const char* tensor, int64_t i, PartView view, std::vector<int64_t> shape) {
    WeightSpec spec;
    spec.name = std::string("model.") + tensor + "." + std::to_string(i);
    spec.dtype = n.limits().weights();
    spec.shape = std::move(shape);
    spec.parts = {{std::string("model.") + tensor + ".weight"}};
    spec.views = {std::move(view)};
    return n.weight(std::move(spec));
  };
  std::vector<Value> all;
  for (int64_t i = 0; i < d.layers; ++i) {
    const std::string at = "model.per_layer_inputs." + std::to_string(i);
    const Value table = part("embed_tokens_per_layer", i,
                             {{c_.own_vocab, d.layers, c_.own_width}, 1, i, 1, {0, 1, 2}},
                             {c_.own_vocab, c_.own_width});
    const Value rows = part("per_layer_model_projection", i,
                            {{d.layers, c_.own_width, d.hidden_size}, 0, i, 1, {0, 1, 2}},
                            {c_.own_width, d.hidden_size});
    const Value token = n("embedding", at + ".embedding", {{"table", table}, {"ids", ids}});
    const Value product = scaled(
        p, at + ".scale", n("linear", at + ".projection", {{"weight", rows}, {"x", p.stream}}),
        1 / std::sqrt(static_cast<double>(d.hidden_size)));
    const Value sum = scaled(p, at + ".sum", token, std::sqrt(static_cast<double>(c_.own_width)),
                             norm(p, "model.per_layer_projection_norm", product));
    all.push_back(scaled(p, at + ".root", sum, std::sqrt(0.5)));
  }
  return all;
}

Value Gemma4::own_part(Phase& p, int64_t i, const std::string& path) const {
  Net& n = p.n;
  const int64_t width = c_.own_width;
  const Value gate =
      n("linear", path + ".per_layer_input_gate", {{"x", p.stream}, {"out_features", width}});
  const Value both = n.empty(n.dtype(gate), {p.step.tokens, 2 * width});
  n("concat", path + ".per_layer_input.concat",
    {{"num_parts", 2},
     {"size", width},
     {"x", std::vector<Value>{gate, p.own[static_cast<size_t>(i)]}},
     {"out", both}});
  const Value gated = n("activation_and_mul", path + ".per_layer_input.act_fn",
                        {{"size", width}, {"kind", "gelu_tanh"}, {"x", both}});
  return norm(p, path + ".post_per_layer_input_norm",
              n("linear", path + ".per_layer_projection",
                {{"x", gated}, {"out_features", c_.decoder.hidden_size}}));
}

std::unique_ptr<Model> make_gemma4(const Config& config) {
  return std::make_unique<Gemma4>(config);
}

FK_MODEL(gemma4_text, make_gemma4, {"Gemma4ForCausalLM"}, {"gemma4_text"});

}  // namespace
}  // namespace fk
