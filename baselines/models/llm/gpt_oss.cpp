// SPDX-License-Identifier: Apache-2.0
// gpt-oss: windows in every other layer, attention sinks, biases everywhere, and a mixture of
// experts with swiglu_oai. Checkpoints have the experts' matrices transposed, or in mxfp4
// (`quantization_config`); with those a layer is recorded in its parts, because the expert weights
// have another form.
#include <algorithm>
#include <cmath>

#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct GptOssConfig {
  DecoderConfig decoder;
  int64_t experts = 0, top_k = 0;
  bool mxfp4 = false;
};

GptOssConfig read_gpt_oss(const Config& config) {
  GptOssConfig c;
  c.decoder = read_decoder(config, true);
  config.child("rope_parameters");  // null would be the default: refused
  const int64_t window = read_window(config);
  if (config.has("layer_types")) {
    slide_layers(config, window, c.decoder);
  } else {
    for (size_t i = 0; i < c.decoder.windows.size(); i += 2) c.decoder.windows[i] = window;
  }
  c.experts = read_count(config, "num_local_experts");
  c.top_k = read_top_k(config, c.experts);
  need_number(config, "swiglu_limit", 7);
  need_number(config, "swiglu_alpha", 1.702);
  c.mxfp4 = Quantization::of(config).method == "mxfp4";
  if (c.mxfp4) {
    for (const char* key : {"hidden_size", "intermediate_size"})
      if (config.integer(key) % 32)
        config.fail_at(key, "mxfp4 has one scale for 32 columns: it must be a multiple of 32");
  }
  return c;
}

class GptOss : public Model {
 public:
  explicit GptOss(const Config& config) : config_(read_gpt_oss(config)) {}

  std::vector<std::string> phases() const override { return {"prefill", "decode"}; }

  void forward(Builder& b, const std::string& phase, const Limits& limits) const override {
    const DecoderStep step = begin_step(b, phase, config_.decoder, limits);
    for (int64_t i = 0; i < config_.decoder.layers; ++i) {
      tap_hidden(b, step, i);
      Args args = layer_args(b, step, config_.decoder, limits, i);
      add_attention(args, b, limits.weights(), i);
      if (config_.mxfp4)
        quantized_layer(b, step, args, limits.weights(), i);
      else
        whole_layer(b, args, limits.weights(), i);
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
  std::string quantization() const override { return config_.mxfp4 ? "mxfp4" : ""; }
  std::vector<Unread> unread() const override { return unread_head(config_.decoder); }

 private:
  static Value bias(Builder& b, const std::string& name, DType dtype, std::vector<int64_t> shape) {
    WeightSpec spec = matrix(name, dtype, std::move(shape), {});
    spec.stddev = 0.1;
    return b.weight(std::move(spec));
  }

  void add_attention(Args& args, Builder& b, DType dtype, int64_t layer) const {
    const std::string attention = layer_path(layer) + ".self_attn.";
    WeightSpec sinks = matrix(attention + "sinks", DType::f32, {config_.decoder.heads}, {});
    sinks.stddev = 1;
    args.emplace_back("sinks", b.weight(std::move(sinks)));
    if (config_.decoder.attention_bias)
      args.emplace_back("o_bias",
                        bias(b, attention + "o_proj.bias", dtype, {config_.decoder.hidden_size}));
  }

  Value router(Builder& b, DType dtype, int64_t layer) const {
    return b.weight(matrix(layer_path(layer) + ".mlp.router.weight", dtype,
                           {config_.experts, config_.decoder.hidden_size}, {}));
  }
  Value router_bias(Builder& b, int64_t layer) const {
    return bias(b, layer_path(layer) + ".mlp.router.bias", DType::f32, {config_.experts});
  }
  // "gate_up_proj" or "down_proj" with its rows.
  Value expert_bias(Builder& b, DType dtype, int64_t layer, const std::string& name,
                    int64_t rows) const {
    return bias(b, layer_path(layer) + ".mlp.experts." + name + "_bias", dtype,
                {config_.experts, rows});
  }

  void whole_layer(Builder& b, Args& args, DType dtype, int64_t layer) const {
    const int64_t channels = config_.decoder.hidden_size,
                  hidden = config_.decoder.intermediate_size;
    const std::string experts = layer_path(layer) + ".mlp.experts.";
    const auto weight = [&](const char* name, int64_t rows, int64_t columns) {
      WeightSpec spec = matrix(experts + name, dtype, {config_.experts, rows, columns}, {});
      spec.view = PartView{{config_.experts, columns, rows}, 0, 0, config_.experts, {0, 2, 1}};
      return b.weight(std::move(spec));
    };
    args.emplace_back("num_experts", config_.experts);
    args.emplace_back("top_k", config_.top_k);
    args.emplace_back("renormalize",
                      true);  // a softmax over the chosen is the softmax renormalised
    args.emplace_back("activation", "swiglu_oai");
    args.emplace_back("gate", router(b, dtype, layer));
    args.emplace_back("gate_bias", router_bias(b, layer));
    args.emplace_back("w13", weight("gate_up_proj", 2 * hidden, channels));
    args.emplace_back("w2", weight("down_proj", channels, hidden));
    args.emplace_back("w13_bias", expert_bias(b, dtype, layer, "gate_up_proj", 2 * hidden));
    args.emplace_back("w2_bias", expert_bias(b, dtype, layer, "down_proj", channels));
    b.call("moe_decoder_layer", layer_path(layer), args);
  }

  // Packed values [E, rows, columns/2] of checkpoint blocks [E, rows, columns/32, 16], and their
  // powers.
  Value blocks(Builder& b, int64_t layer, const std::string& name, int64_t rows,
               int64_t columns) const {
    WeightSpec spec = matrix(layer_path(layer) + ".mlp.experts." + name + "_blocks", DType::u8,
                             {config_.experts, rows, columns / 2}, {});
    spec.view = PartView{{config_.experts, rows, columns / 2}, 0, 0, config_.experts, {0, 1, 2}};
    return b.weight(std::move(spec));
  }
  Value scales(Builder& b, int64_t layer, const std::string& name, int64_t rows,
               int64_t columns) const {
    WeightSpec spec = matrix(layer_path(layer) + ".mlp.experts." + name + "_scales", DType::u8,
                             {config_.experts, rows, columns / 32}, {});
    // e2m1 codes at random have a root mean square of 2.9.
    spec.low = 127 - std::lround(std::log2(2.9 * std::sqrt(static_cast<double>(columns))));
    spec.high = spec.low + 1;
    return b.weight(std::move(spec));
  }

  void quantized_layer(Builder& b, const DecoderStep& step, const Args& layer_arguments,
                       DType dtype, int64_t layer) const {
    const int64_t channels = config_.decoder.hidden_size,
                  hidden = config_.decoder.intermediate_size;
    const std::string path = layer_path(layer);
    const auto given = [&](const std::string& name) -> const Arg& {
      return *std::find_if(layer_arguments.begin(), layer_arguments.end(),
                           [&](const Arg& arg) { return arg.name == name; });
    };
    const auto norm = [&](const char* name, const char* weight, Value x) -> Value {
      return b.call("rms_norm", path + name,
                    {{"hidden_size", channels},
                     {"eps", config_.decoder.eps},
                     {"weight", std::get<Value>(given(weight).value)},
                     {"x", x},
                     {"residual", step.residual}});
    };
    Args attention;
    for (const Arg& arg : layer_arguments)
      if (b.catalog().at("self_attention").find(arg.name)) attention.push_back(arg);
    attention.emplace_back("x", norm(".input_layernorm", "input_norm", step.hidden));
    const Value attended = b.call("self_attention", path + ".self_attn", attention);
    const Value x = norm(".post_attention_layernorm", "post_norm", attended);
    const Value logits = b.call("linear", path + ".mlp.router",
                                {{"in_features", channels},
                                 {"out_features", config_.experts},
                                 {"weight", router(b, dtype, layer)},
                                 {"bias", router_bias(b, layer)},
                                 {"x", x},
                                 {"out", b.empty(DType::f32, {step.tokens, config_.experts})}});
    const Outputs chosen = b.call("topk_softmax", path + ".mlp.topk",
                                  {{"num_experts", config_.experts},
                                   {"top_k", config_.top_k},
                                   {"renormalize", true},
                                   {"logits", logits}});
    b.call("fused_moe_mxfp4", path + ".mlp.experts",
           {{"hidden_size", channels},
            {"intermediate_size", hidden},
            {"num_experts", config_.experts},
            {"top_k", config_.top_k},
            {"w13", blocks(b, layer, "gate_up_proj", 2 * hidden, channels)},
            {"w13_scale", scales(b, layer, "gate_up_proj", 2 * hidden, channels)},
            {"w13_bias", expert_bias(b, dtype, layer, "gate_up_proj", 2 * hidden)},
            {"w2", blocks(b, layer, "down_proj", channels, hidden)},
            {"w2_scale", scales(b, layer, "down_proj", channels, hidden)},
            {"w2_bias", expert_bias(b, dtype, layer, "down_proj", channels)},
            {"x", x},
            {"topk_weights", chosen["topk_weights"]},
            {"topk_ids", chosen["topk_ids"]},
            {"out", step.hidden}});
  }

  GptOssConfig config_;
};

std::unique_ptr<Model> make_gpt_oss(const Config& config) {
  return std::make_unique<GptOss>(config);
}

FK_MODEL(gpt_oss, make_gpt_oss, {"GptOssForCausalLM"}, {"gpt_oss"},
         {"experts_per_token", "initial_context_length"});

}  // namespace
}  // namespace fk
