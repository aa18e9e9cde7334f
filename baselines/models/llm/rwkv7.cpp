// SPDX-License-Identifier: Apache-2.0
// RWKV-7: layers of a time mix and a channel mix over each token and the one before it, without
// attention and without pages. A request's past is two tokens and a matrix for each head. The
// values of the first layer are an input of all later ones.
#include <cmath>

#include "baselines/models/parts/recurrent.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct Rwkv7Config {
  DecoderConfig decoder;  // heads: of the recurrence; without sizes of attention
  int64_t decay_rank = 0, gate_rank = 0, a_rank = 0, v_rank = 0;
};

Rwkv7Config read_rwkv7(const Config& config) {
  Rwkv7Config c;
  DecoderConfig& d = c.decoder;
  d.names.embedding = "model.embeddings";
  d.hidden_size = read_size(config, "hidden_size");
  d.layers = read_count(config, "num_hidden_layers");
  d.vocab_size = read_size(config, "vocab_size");
  d.head_dim = read_count(config, "head_dim");
  d.heads = d.hidden_size / d.head_dim;
  if (d.hidden_size % d.head_dim) config.fail_at("head_dim", "it does not divide hidden_size");
  if (config.integer("num_heads", d.heads) != d.heads)
    config.fail_at("num_heads", "it is not hidden_size / head_dim");
  // Four times the width, rounded up to a multiple of 32, as in flash-linear-attention.
  const int64_t ratio =
      bounded(config, "hidden_ratio", static_cast<int64_t>(config.number("hidden_ratio", 4)), 1024);
  d.intermediate_size = config.is_number("intermediate_size")
                            ? read_size(config, "intermediate_size")
                            : (d.hidden_size * ratio + 31) / 32 * 32;
  d.eps = config.number("norm_eps");
  d.tied = config.boolean("tie_word_embeddings");
  d.steady = true;
  d.eos = read_eos(config);
  c.decay_rank = read_count(config, "decay_low_rank_dim");
  c.gate_rank = read_count(config, "gate_low_rank_dim");
  c.a_rank = read_count(config, "a_low_rank_dim");
  c.v_rank = read_count(config, "v_low_rank_dim");
  need_text(config, "hidden_act", "sqrelu");
  need_boolean(config, {"norm_first", "norm_bias"}, true);
  if (config.has("attn")) config.fail_at("attn", "layers of attention are not supported");
  const bool list = config.is_list("value_dim");
  const auto widths = list ? config.integers("value_dim")
                           : std::vector<int64_t>{config.integer("value_dim", d.hidden_size)};
  for (const int64_t width : widths)
    if (width != d.hidden_size) config.fail_at("value_dim", "only hidden_size is supported");
  return c;
}

class Rwkv7 : public Model {
 public:
  explicit Rwkv7(const Config& config) : config_(read_rwkv7(config)) {}

  std::unique_ptr<Engine> engine() const override {
    return generate_engine(decoder_options(config_.decoder));
  }

  void forward(Net& n, const std::string& phase) const override {
    const DecoderConfig& d = config_.decoder;
    DecoderStep step = begin_recurrent_batch(n, phase);
    n.common({{"eps", d.eps}});
    begin_large(n, d, layer_path(d, 0) + ".pre_norm.weight");
    look_up(n, step, d);
    Value stream = step.hidden, first;
    for (int64_t i = 0; i < d.layers; ++i) {
      n.tap("hidden." + std::to_string(i), {stream});
      const std::string path = layer_path(d, i);
      if (i == 0) stream = n("layer_norm", path + ".pre_norm", {{"x", stream}});
      const Value x = n("layer_norm", path + ".attn_norm", {{"x", stream}});
      stream = n("add", path + ".attn.add",
                 {{"a", stream}, {"b", time_mix(n, step, path + ".attn", x, first)}});
      const Value y = n("layer_norm", path + ".ffn_norm", {{"x", stream}});
      stream =
          n("add", path + ".ffn.add", {{"a", stream}, {"b", channel_mix(n, path + ".ffn", y)}});
    }
    const Value x = n("layer_norm", d.names.norm, {{"x", stream}});
    n.tap("hidden." + std::to_string(d.layers), {x});
    sample_rows(n, step, x, d);
  }

  std::vector<Unread> unread() const override { return unread_head(config_.decoder); }

 private:
  // A weight whose rows are tensors of the model's width, which have any shape in checkpoints.
  Value rows(Net& n, const std::vector<std::string>& names, std::vector<int64_t> shape, double mean,
             double stddev) const {
    WeightSpec spec;
    spec.name = names.front();
    spec.dtype = n.limits().weights();
    spec.parts = {names};
    for (size_t i = 0; i < names.size(); ++i)
      spec.views.push_back({{1, config_.decoder.hidden_size}, 0, 0, 1, {0, 1}});
    spec.shape = std::move(shape);
    spec.mean = mean, spec.stddev = stddev;
    return n.weight(std::move(spec));
  }
  Value of_heads(Net& n, const std::string& name, double mean, double stddev) const {
    const DecoderConfig& d = config_.decoder;
    return rows(n, {name}, {d.heads, d.head_dim}, mean, stddev);
  }

  // Mixtures of each token and the one before it, [mixtures,T,C].
  Value mixtures(Net& n, const std::string& path, Value x,
                 const std::vector<std::string>& names) const {
    const DecoderConfig& d = config_.decoder;
    const auto count = static_cast<int64_t>(names.size());
    std::vector<std::string> tensors;
    for (const auto& name : names) tensors.push_back(path + "." + name);
    return n("token_shift_mix", path + ".shift",
             {{"channels", d.hidden_size},
              {"mixtures", count},
              {"mu", rows(n, tensors, {count, d.hidden_size}, 0.5, 0.2)},
              {"x", x},
              {"shift_state",
               n.state(path + ".shift_state", n.limits().dtype, {n.axis("N"), d.hidden_size})}});
  }

  Value linear(Net& n, const std::string& path, Value x, int64_t columns, bool bias = false) const {
    return n("linear", path, {{"x", x}, {"out_features", columns}},
             std::vector<std::string>(bias ? 1 : 0, "bias"));
  }
  // A product of low rank. `function` may be between its two matrices.
  Value low_rank(Net& n, const std::string& path, Value x, int64_t rank, const char* function,
                 bool bias = true) const {
    Value low = linear(n, path + ".lora.0", x, rank);
    if (*function)
      low = n("activation", path + ".lora.1", {{"kind", function}, {"size", rank}, {"x", low}});
    return linear(n, path + ".lora.2", low, config_.decoder.hidden_size, bias);
  }

  Value time_mix(Net& n, const DecoderStep& step, const std::string& path, Value x,
                 Value& first) const {
    const Rwkv7Config& c = config_;
    const DecoderConfig& d = c.decoder;
    const Value mixed = mixtures(n, path, x, {"x_r", "x_w", "x_k", "x_v", "x_a", "x_g"});
    const auto mix = [&](int64_t i) {
      return n.reshape(n.slice(mixed, 0, i, 1), {step.tokens, d.hidden_size});
    };
    const auto heads = [&](Value v) { return n.reshape(v, {step.tokens, d.heads, d.head_dim}); };
    const Value r = heads(linear(n, path + ".r_proj", mix(0), d.hidden_size));
    const Value k = heads(linear(n, path + ".k_proj", mix(2), d.hidden_size));
    const Value v = heads(linear(n, path + ".v_proj", mix(3), d.hidden_size));
    const Value g = heads(low_rank(n, path + ".g_lora", mix(5), c.gate_rank, "sigmoid", false));
    Args args{{"num_heads", d.heads},
              {"head_dim", d.head_dim},
              {"k_k", of_heads(n, path + ".k_k", 0.7, 0.2)},
              {"k_a", of_heads(n, path + ".k_a", 1, 0.2)},
              {"w", heads(low_rank(n, path + ".w_lora", mix(1), c.decay_rank, "tanh"))},
              {"k", k},
              {"a", heads(low_rank(n, path + ".a_lora", mix(4), c.a_rank, ""))}};
    if (first) {
      args.emplace_back("v", v);
      args.emplace_back("v_first", first);
      args.emplace_back("v_gate", heads(low_rank(n, path + ".v_lora", mix(3), c.v_rank, "")));
    } else {
      first = v;
    }
    const Outputs gates = n("rwkv7_gates", path + ".gates", std::move(args));
    const Value o =
        n(step.decode ? "dplr_recurrence_update" : "dplr_recurrence", path + ".rule",
          {{"num_heads", d.heads},
           {"head_dim", d.head_dim},
           {"v_head_dim", d.head_dim},
           {"r", r},
           {"w", gates["decay"]},
           {"k", gates["key"]},
           {"v", v},
           {"a", gates["remove"]},
           {"b", gates["add"]},
           // float32, because rounding at every token would lose the parts which decay slowly.
           {"recurrent_state", n.state(path + ".recurrent_state", DType::f32,
                                       {n.axis("N"), d.heads, d.head_dim, d.head_dim})}});
    const Value y = n("rwkv7_output", path + ".output",
                      {{"num_heads", d.heads},
                       {"head_dim", d.head_dim},
                       {"eps", d.eps * static_cast<double>(d.head_dim)},
                       {"weight", of_heads(n, path + ".g_norm.weight", 1, 0.2)},
                       {"bias", of_heads(n, path + ".g_norm.bias", 0, 0.1)},
                       {"r_k", of_heads(n, path + ".r_k", 0, 0.2)},
                       {"o", o},
                       {"r", r},
                       {"k", gates["key"]},
                       {"v", v},
                       {"g", g}});
    return linear(n, path + ".o_proj", n.reshape(y, {step.tokens, d.hidden_size}), d.hidden_size);
  }

  Value channel_mix(Net& n, const std::string& path, Value x) const {
    const DecoderConfig& d = config_.decoder;
    const Dims shape = n.shape(x);
    const Value mixed = n.reshape(mixtures(n, path, x, {"x_k"}), shape);
    const Value key = linear(n, path + ".key", mixed, d.intermediate_size);
    const Value squared = n("activation", path + ".act",
                            {{"kind", "relu2"}, {"size", d.intermediate_size}, {"x", key}});
    return linear(n, path + ".value", squared, d.hidden_size);
  }

  Rwkv7Config config_;
};

std::unique_ptr<Model> make_rwkv7(const Config& config) { return std::make_unique<Rwkv7>(config); }

FK_MODEL(rwkv7, make_rwkv7, {"RWKV7ForCausalLM"}, {"rwkv7"},
         {"attn_mode", "fuse_norm", "fuse_cross_entropy", "fuse_linear_cross_entropy", "use_l2warp",
          "max_position_embeddings"});

}  // namespace
}  // namespace fk
