// SPDX-License-Identifier: Apache-2.0
// Whisper: an encoder of the log-mel features of a sound, two convolutions over time and pre-norm
// layers, and a decoder that attends to what the encoder left. A request is encoded once, before
// its prompt: the keys and values of every decoder layer's cross attention go into its slot.
#include <cmath>

#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/gelu.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;

struct Stack {
  int64_t layers = 0, heads = 0, hidden = 0;
};

struct WhisperConfig {
  int64_t channels = 0, mel = 0, source = 0, target = 0, vocab_size = 0;
  Stack encoder, decoder;
  std::string approximate;
  bool tied = false;
  Ints eos;
};

Stack read_stack(const Config& config, const std::string& prefix, int64_t channels) {
  Stack s{read_count(config, prefix + "_layers"), read_count(config, prefix + "_attention_heads"),
          read_size(config, prefix + "_ffn_dim")};
  if (channels % s.heads != 0)
    config.fail_at(prefix + "_attention_heads", "d_model is not a multiple of it");
  return s;
}

WhisperConfig read_whisper(const Config& config) {
  WhisperConfig c;
  c.channels = read_size(config, "d_model");
  c.mel = read_count(config, "num_mel_bins");
  c.source = read_size(config, "max_source_positions");
  c.target = read_size(config, "max_target_positions");
  c.vocab_size = read_size(config, "vocab_size");
  c.encoder = read_stack(config, "encoder", c.channels);
  c.decoder = read_stack(config, "decoder", c.channels);
  c.approximate = read_gelu(config, "activation_function");
  c.tied = config.boolean("tie_word_embeddings");
  c.eos = read_eos(config);
  need_boolean(config, {"scale_embedding"}, false);
  need_boolean(config, {"is_encoder_decoder"}, true);
  // Other names for these in transformers.
  need_number(config, "hidden_size", static_cast<double>(c.channels));
  need_number(config, "num_hidden_layers", static_cast<double>(c.encoder.layers));
  for (const char* heads : {"num_attention_heads", "num_key_value_heads"})
    need_number(config, heads, static_cast<double>(c.encoder.heads));
  return c;
}

// Weights by their checkpoint names; everything but the head is below `model.`.
struct WhisperWeights {
  Builder& b;
  DType dtype;

  Value make(const std::string& name, Ints shape, double mean, double stddev,
             std::vector<std::string> concatenated = {}) const {
    WeightSpec spec = matrix("model." + name, dtype, std::move(shape), {});
    spec.mean = mean;
    spec.stddev = stddev;
    for (auto& part : concatenated)
      if (!part.empty()) part = "model." + part;
    if (!concatenated.empty()) spec.parts = {std::move(concatenated)};
    return b.weight(std::move(spec));
  }
  Value table(const std::string& name, int64_t rows, int64_t channels) const {
    return make(name + ".weight", {rows, channels}, 0, 1);
  }
  Value linear(const std::string& module, int64_t out, int64_t in) const {
    return make(module + ".weight", {out, in}, 0, 0);
  }
  Value gain(const std::string& module, int64_t count) const {
    return make(module + ".weight", {count}, 1, 0.2);
  }
  Value bias(const std::string& module, int64_t count) const {
    return make(module + ".bias", {count}, 0, 0.1);
  }
  Value norm(const std::string& module, Value x, int64_t channels) const {
    return b.call("layer_norm", "model." + module,
                  {{"hidden_size", channels},
                   {"weight", gain(module, channels)},
                   {"bias", bias(module, channels)},
                   {"x", x}});
  }
  Value sum(const std::string& path, Value x, Value y, int64_t channels) const {
    return b.call("add", "model." + path, {{"size", channels}, {"a", x}, {"b", y}});
  }
};

class Whisper : public Model {
 public:
  explicit Whisper(const Config& config) : config_(read_whisper(config)) {}

  std::vector<std::string> phases() const override { return {"encode", "prefill", "decode"}; }

  void forward(Builder& b, const std::string& phase, const Limits& limits) const override {
    const WhisperWeights w{b, limits.weights()};
    phase == "encode" ? encode(w, limits) : decode(w, phase, limits);
  }

  void drive(Session& session) const override {
    generate(session, {.eos = config_.eos, .encoder = "encode", .encoder_length = config_.source});
  }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    return axis == "N" ? limits.max_batch : decoder_axis_limit(phase, axis, limits);
  }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.target; }
  std::vector<Unread> unread() const override {
    if (!config_.tied) return {};
    return {{"proj_out.weight", "a tied head", "model.decoder.embed_tokens.weight"}};
  }
  std::vector<RequestTensor> request_tensors() const override {
    return {{"input_features", {config_.mel, 2 * config_.source}}};
  }

 private:
  static std::string layer_name(const char* stack, int64_t layer) {
    return std::string(stack) + ".layers." + std::to_string(layer);
  }

  // What layers of both kinds have: sizes, attention to themselves, an MLP.
  Args layer_args(const WhisperWeights& w, const Stack& stack, const std::string& path) const {
    const int64_t channels = config_.channels, width = channels / stack.heads;
    const std::string self = path + ".self_attn.", fc1 = path + ".fc1", fc2 = path + ".fc2";
    const std::string before = path + ".self_attn_layer_norm", last = path + ".final_layer_norm";
    const Value qkv =
        w.make(self + "qkv_proj.weight", {3 * channels, channels}, 0, 0,
               {self + "q_proj.weight", self + "k_proj.weight", self + "v_proj.weight"});
    const Value qkv_bias = w.make(self + "qkv_proj.bias", {3 * channels}, 0, 0.1,
                                  {self + "q_proj.bias", "", self + "v_proj.bias"});
    return {{"hidden_size", channels},
            {"num_heads", stack.heads},
            {"head_dim", width},
            {"scale", 1 / std::sqrt(static_cast<double>(width))},
            {"intermediate_size", stack.hidden},
            {"approximate", config_.approximate},
            {"attn_norm_weight", w.gain(before, channels)},
            {"attn_norm_bias", w.bias(before, channels)},
            {"qkv", qkv},
            {"qkv_bias", qkv_bias},
            {"o", w.linear(self + "out_proj", channels, channels)},
            {"o_bias", w.bias(self + "out_proj", channels)},
            {"mlp_norm_weight", w.gain(last, channels)},
            {"mlp_norm_bias", w.bias(last, channels)},
            {"fc1", w.linear(fc1, stack.hidden, channels)},
            {"fc1_bias", w.bias(fc1, stack.hidden)},
            {"fc2", w.linear(fc2, channels, stack.hidden)},
            {"fc2_bias", w.bias(fc2, channels)}};
  }

  // gelu(convolution) over time of x [B,1,frames,in]: a line is an image of one row.
  Value convolve(const WhisperWeights& w, const std::string& module, Value x, int64_t in,
                 int64_t stride) const {
    const int64_t out = config_.channels;
    const double gain = 1 / std::sqrt(static_cast<double>(3 * in));
    const Value y = w.b.call("conv2d", "model." + module,
                             {{"in_channels", in},
                              {"out_channels", out},
                              {"kernel_size", Ints{1, 3}},
                              {"stride", Ints{1, stride}},
                              {"padding", Ints{0, 1}},
                              {"dilation", Ints{1, 1}},
                              {"weight", w.make(module + ".weight", {out, in, 1, 3}, 0, gain)},
                              {"bias", w.bias(module, out)},
                              {"x", x}});
    const Dims shape = w.b.shape(y);
    const Value z = w.b.call("gelu", "model." + module + ".gelu",
                             {{"size", out}, {"x", w.b.reshape(y, {shape[0] * shape[2], out})}});
    return w.b.reshape(z, shape);
  }

  void encode(const WhisperWeights& w, const Limits& limits) const {
    Builder& b = w.b;
    const int64_t channels = config_.channels, source = config_.source, frames = 2 * source;
    const Expr requests = b.axis("B"), tokens = requests * source;
    const Value features = b.input("input_features", DType::f32, {requests, config_.mel, frames});
    const Value lines =
        b.call("transpose", "input_features",
               {{"x", features}, {"out", b.empty(limits.dtype, {requests, frames, config_.mel})}});
    Value x = convolve(w, "encoder.conv1", b.reshape(lines, {requests, 1, frames, config_.mel}),
                       config_.mel, 1);
    x = convolve(w, "encoder.conv2", x, channels, 2);
    const Value positions = b.call("embedding", "model.encoder.embed_positions",
                                   {{"num_embeddings", source},
                                    {"embedding_dim", channels},
                                    {"table", w.table("encoder.embed_positions", source, channels)},
                                    {"ids", b.input("positions", DType::i64, {tokens})},
                                    {"out", b.empty(limits.dtype, {tokens, channels})}});
    x = w.sum("encoder.embed", b.reshape(x, {tokens, channels}), positions, channels);
    const Value cu_seqlens = b.input("cu_seqlens", DType::i32, {requests + 1});
    for (int64_t i = 0; i < config_.encoder.layers; ++i) {
      const std::string path = layer_name("encoder", i);
      b.tap("encoder_hidden." + std::to_string(i), {x});
      Args args = layer_args(w, config_.encoder, path);
      args.emplace_back("x", x);
      args.emplace_back("cu_seqlens", cu_seqlens);
      args.emplace_back("max_seqlen", Expr(source));
      x = b.call("whisper_encoder_layer", "model." + path, args);
    }
    x = w.norm("encoder.layer_norm", x, channels);
    b.tap("encoder_hidden." + std::to_string(config_.encoder.layers), {x});
    b.tap("encoder_last_hidden_state", {x});
    const Value slots = b.input("state_slots", DType::i32, {requests});
    for (int64_t i = 0; i < config_.decoder.layers; ++i) {
      leave(w, limits, i, "k", x, slots, Value{});
      leave(w, limits, i, "v", x, slots,
            w.bias(layer_name("decoder", i) + ".encoder_attn.v_proj", channels));
    }
  }

  // [N,S,H,D]: keys or values of a decoder layer's cross attention.
  Value source_state(Builder& b, const Limits& limits, int64_t layer,
                     const std::string& kind) const {
    const int64_t heads = config_.decoder.heads;
    return b.state("model." + layer_name("decoder", layer) + ".encoder_attn." + kind,
                   limits.cache_dtype,
                   {b.axis("N"), config_.source, heads, config_.channels / heads});
  }

  // Projects what the encoder made of each request and writes it into the request's slot.
  void leave(const WhisperWeights& w, const Limits& limits, int64_t layer, const std::string& kind,
             Value x, Value slots, Value bias) const {
    Builder& b = w.b;
    const int64_t channels = config_.channels, all = config_.source * channels;
    const std::string module = layer_name("decoder", layer) + ".encoder_attn." + kind + "_proj";
    const Value y = b.call("linear", "model." + module,
                           {{"in_features", channels},
                            {"out_features", channels},
                            {"weight", w.linear(module, channels, channels)},
                            {"bias", bias},
                            {"x", x},
                            {"out", b.empty(limits.cache_dtype, b.shape(x))}});
    const Value state = source_state(b, limits, layer, kind);
    b.call("scatter_rows", "model." + module + ".state",
           {{"size", all},
            {"x", b.reshape(y, {b.shape(slots)[0], all})},
            {"rows", slots},
            {"out", b.reshape(state, {b.shape(state)[0], all})}});
  }

  // As a head too, a table of unit elements would give logits of the size sqrt(C).
  WeightSpec tokens_table(DType dtype, const char* name) const {
    WeightSpec spec = matrix(name, dtype, {config_.vocab_size, config_.channels}, {});
    spec.stddev = 1 / std::sqrt(static_cast<double>(config_.channels));
    return spec;
  }

  void decode(const WhisperWeights& w, const std::string& phase, const Limits& limits) const {
    Builder& b = w.b;
    const int64_t channels = config_.channels;
    const DecoderStep step = begin_batch(b, phase, limits);
    const Value state_slots = b.input("state_slots", DType::i32, {step.requests});
    const Value source_lens = b.input("source_lens", DType::i32, {step.requests});
    const WeightSpec table = tokens_table(w.dtype, "model.decoder.embed_tokens.weight");
    const Value words = b.call("embedding", "model.decoder.embed_tokens",
                               {{"num_embeddings", config_.vocab_size},
                                {"embedding_dim", channels},
                                {"table", b.weight(table)},
                                {"ids", b.input("ids", DType::i64, {step.tokens})},
                                {"out", b.empty(limits.dtype, {step.tokens, channels})}});
    const Value places =
        b.call("embedding", "model.decoder.embed_positions",
               {{"num_embeddings", config_.target},
                {"embedding_dim", channels},
                {"table", w.table("decoder.embed_positions", config_.target, channels)},
                {"ids", step.positions},
                {"out", b.empty(limits.dtype, {step.tokens, channels})}});
    Value x = w.sum("decoder.embed", words, places, channels);
    for (int64_t i = 0; i < config_.decoder.layers; ++i) {
      b.tap("decoder_hidden." + std::to_string(i), {x});
      Args args = decoder_args(w, step, limits, i);
      args.emplace_back("state_slots", state_slots);
      args.emplace_back("source_lens", source_lens);
      args.emplace_back("x", x);
      x = b.call("whisper_decoder_layer", "model." + layer_name("decoder", i), args);
    }
    x = w.norm("decoder.layer_norm", x, channels);
    b.tap("decoder_hidden." + std::to_string(config_.decoder.layers), {x});
    sample_rows(b, step, x, config_.tied ? table : tokens_table(w.dtype, "proj_out.weight"));
  }

  Args decoder_args(const WhisperWeights& w, const DecoderStep& step, const Limits& limits,
                    int64_t layer) const {
    const int64_t channels = config_.channels;
    const std::string path = layer_name("decoder", layer), cross = path + ".encoder_attn.";
    const std::string before = path + ".encoder_attn_layer_norm";
    Args args = layer_args(w, config_.decoder, path);
    const auto cache = [&](const char* name) {
      const int64_t heads = config_.decoder.heads;
      return w.b.state("model." + path + ".self_attn." + name, limits.cache_dtype,
                       {w.b.axis("P"), limits.page_size, heads, channels / heads});
    };
    const Args more = {{"page_size", limits.page_size},
                       {"source_len", config_.source},
                       {"cross_norm_weight", w.gain(before, channels)},
                       {"cross_norm_bias", w.bias(before, channels)},
                       {"cross_q", w.linear(cross + "q_proj", channels, channels)},
                       {"cross_q_bias", w.bias(cross + "q_proj", channels)},
                       {"cross_o", w.linear(cross + "out_proj", channels, channels)},
                       {"cross_o_bias", w.bias(cross + "out_proj", channels)},
                       {"k_cache", cache("k_cache")},
                       {"v_cache", cache("v_cache")},
                       {"block_tables", step.block_tables},
                       {"cu_seqlens", step.cu_seqlens},
                       {"seq_lens", step.seq_lens},
                       {"slot_mapping", step.slot_mapping},
                       {"source_k", source_state(w.b, limits, layer, "k")},
                       {"source_v", source_state(w.b, limits, layer, "v")},
                       {"max_query_len", step.max_query_len},
                       {"max_seq_len", step.max_seq_len}};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  WhisperConfig config_;
};

std::unique_ptr<Model> make_whisper(const Config& config) {
  return std::make_unique<Whisper>(config);
}

FK_MODEL(whisper, make_whisper, {"WhisperForConditionalGeneration"}, {"whisper"},
         {"activation_dropout", "apply_spec_augment", "classifier_proj_size", "decoder_layerdrop",
          "dropout", "encoder_layerdrop", "init_std", "mask_feature_length",
          "mask_feature_min_masks", "mask_feature_prob", "mask_time_length", "mask_time_min_masks",
          "mask_time_prob", "median_filter_width", "use_weighted_layer_sum"});

}  // namespace
}  // namespace fk
