// SPDX-License-Identifier: Apache-2.0
// gpt-oss: windows in every other layer, attention sinks, biases everywhere, and a mixture of
// experts with swiglu_oai. Checkpoints have the experts' matrices transposed, or in mxfp4
// (`quantization_config`); with those a layer is recorded in its parts, because the expert weights
// have another form.
#include <algorithm>
#include <cmath>

#include "baselines/models/parts/dense_decoder.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct GptOssConfig {
  DecoderConfig decoder;
  int64_t experts = 0, top_k = 0;
  bool mxfp4 = false;
  std::vector<std::string> attention;  // its optional weights
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
  c.attention = {"sinks"};
  if (c.decoder.attention_bias) c.attention.insert(c.attention.end(), {"qkv_bias", "o_bias"});
  c.decoder.with = c.attention;
  c.decoder.with.insert(c.decoder.with.end(), {"gate_bias", "expert_biases"});
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

// All experts are one tensor, whose matrices are transposed or in blocks of mxfp4.
void adapt_experts(WeightSpec& spec) {
  if (spec.name.ends_with(".router.bias")) spec.dtype = DType::f32;
  if (spec.name.find(".mlp.experts.") == std::string::npos) return;
  spec.parts.clear();
  spec.stacked = false;
  const auto& shape = spec.shape;
  if (spec.name.ends_with("_proj"))
    spec.view = PartView{{shape[0], shape[2], shape[1]}, 0, 0, shape[0], {0, 2, 1}};
  if (!spec.name.ends_with("_scales")) return;
  // e2m1 codes at random have a root mean square of 2.9.
  spec.low = 127 - std::lround(std::log2(2.9 * std::sqrt(static_cast<double>(32 * shape[2]))));
  spec.high = spec.low + 1;
}

class GptOss final : public DenseDecoder {
 public:
  explicit GptOss(const GptOssConfig& config)
      : DenseDecoder(config.decoder),
        experts_(config.experts),
        top_k_(config.top_k),
        attention_(config.attention),
        mxfp4_(config.mxfp4) {}

  void forward(Net& n, const std::string& phase) const override {
    const std::string moe = "block_sparse_moe.", experts = moe + "experts.";
    n.rename({{moe + "gate", "mlp.router"},
              {experts + "w13.weight", "mlp.experts.gate_up_proj"},
              {experts + "w2.weight", "mlp.experts.down_proj"},
              {experts + "w13.bias", "mlp.experts.gate_up_proj_bias"},
              {experts + "w2.bias", "mlp.experts.down_proj_bias"}});
    n.adapt(adapt_experts);
    DenseDecoder::forward(n, phase);
  }
  std::string quantization() const override { return mxfp4_ ? "mxfp4" : ""; }
  std::string refusal(const Parallel& parallel) const override { return Model::refusal(parallel); }

 private:
  int64_t experts() const override { return experts_; }

  void layer(Net& n, const DecoderStep& step, int64_t number) const override {
    if (mxfp4_) return quantized_layer(n, step, number);
    record_layer(n, "moe_decoder_layer", step, config(), number,
                 {{"num_experts", experts_},
                  {"top_k", top_k_},
                  {"renormalize", true},  // a softmax over the chosen is the softmax renormalised
                  {"activation", "swiglu_oai"}});
  }

  void quantized_layer(Net& n, const DecoderStep& step, int64_t number) const {
    const std::string path = layer_path(config(), number);
    tap_hidden(n, step, number);
    const Value residual = step.residual;
    Value x =
        n("rms_norm", path + ".input_layernorm", {{"x", step.hidden}, {"residual", residual}});
    x = n("self_attention", path + ".self_attn",
          {{"x", x}, {"window", config().windows[static_cast<size_t>(number)]}}, attention_);
    x = n("rms_norm", path + ".post_attention_layernorm", {{"x", x}, {"residual", residual}});
    const Value logits = n("linear", path + ".mlp.router",
                           {{"x", x}, {"out_features", experts_}, {"out", "f32"}}, {"bias"});
    const Outputs chosen = n("topk_softmax", path + ".mlp.topk",
                             {{"top_k", top_k_}, {"renormalize", true}, {"logits", logits}});
    n("fused_moe_mxfp4", path + ".mlp.experts",
      {{"num_experts", experts_},
       {"x", x},
       {"topk_weights", chosen["topk_weights"]},
       {"topk_ids", chosen["topk_ids"]},
       {"out", step.hidden}},
      {"expert_biases"});
  }

  int64_t experts_, top_k_;
  std::vector<std::string> attention_;
  bool mxfp4_;
};

std::unique_ptr<Model> make_gpt_oss(const Config& config) {
  return std::make_unique<GptOss>(read_gpt_oss(config));
}

FK_MODEL(gpt_oss, make_gpt_oss, {"GptOssForCausalLM"}, {"gpt_oss"},
         {"experts_per_token", "initial_context_length"});

}  // namespace
}  // namespace fk
