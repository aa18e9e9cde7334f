// SPDX-License-Identifier: Apache-2.0
// Whisper: an encoder of the log-mel features of a sound, and a decoder which attends to the
// encoder's output. The encoder has two convolutions over time and pre-norm layers. A request is
// encoded once, before its prompt: the keys and values of every decoder layer's cross attention go
// into its slot.
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
  int64_t channels = 0, mel = 0, source = 0, target = 0;
  Stack encoder, decoder;
  std::string approximate;
  DecoderConfig words;  // the decoder's table and head
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
  c.words.names.embedding = "model.decoder.embed_tokens";
  c.words.names.head = "proj_out";
  c.words.hidden_size = c.channels;
  c.words.vocab_size = read_size(config, "vocab_size");
  c.words.max_position = c.target;
  c.encoder = read_stack(config, "encoder", c.channels);
  c.decoder = read_stack(config, "decoder", c.channels);
  c.approximate = read_gelu(config, "activation_function");
  c.words.tied = config.boolean("tie_word_embeddings");
  c.words.eos = read_eos(config);
  need_boolean(config, {"scale_embedding"}, false);
  need_boolean(config, {"is_encoder_decoder"}, true);
  // transformers has other names for these weights.
  need_number(config, "hidden_size", static_cast<double>(c.channels));
  need_number(config, "num_hidden_layers", static_cast<double>(c.encoder.layers));
  for (const char* heads : {"num_attention_heads", "num_key_value_heads"})
    need_number(config, heads, static_cast<double>(c.encoder.heads));
  return c;
}

class Whisper : public Model {
 public:
  explicit Whisper(const Config& config) : config_(read_whisper(config)) {}

  std::unique_ptr<Engine> engine() const override {
    GenerateOptions options = decoder_options(config_.words);
    options.encoders = {{.phase = "encode",
                         .length = config_.source,
                         .tensors = {{"input_features", {config_.mel, 2 * config_.source}}}}};
    return generate_engine(std::move(options));
  }

  void forward(Net& n, const std::string& phase) const override {
    n.common({{"approximate", config_.approximate}});
    phase == "encode" ? encode(n) : decode(n, phase);
  }

  std::vector<Unread> unread() const override { return unread_head(config_.words); }

 private:
  static std::string layer_name(const char* stack, int64_t layer) {
    return std::string("model.") + stack + ".layers." + std::to_string(layer);
  }

  void begin_layers(Net& n, const Stack& stack) const {
    const int64_t width = config_.channels / stack.heads;
    n.common({{"num_heads", stack.heads},
              {"head_dim", width},
              {"scale", 1 / std::sqrt(static_cast<double>(width))},
              {"intermediate_size", stack.hidden}});
  }

  // The sum of x [T,C] and a row of the position table `path` for each.
  static Value add_positions(Net& n, const std::string& path, Value x, Value positions,
                             int64_t count) {
    const Value rows = n(
        "embedding", path + ".embed_positions",
        {{"num_embeddings", count}, {"embedding_dim", n.shape(x)[1].value()}, {"ids", positions}});
    return n("add", path + ".embed", {{"a", x}, {"b", rows}});
  }

  // gelu(convolution) over time of x [B,1,frames,in]: a line is an image of one row.
  Value convolve(Net& n, const std::string& path, Value x, int64_t stride) const {
    const Value y = n("conv2d", path,
                      {{"out_channels", config_.channels},
                       {"kernel_size", Ints{1, 3}},
                       {"stride", Ints{1, stride}},
                       {"padding", Ints{0, 1}},
                       {"dilation", Ints{1, 1}},
                       {"x", x}},
                      {"bias"});
    const Dims shape = n.shape(y);
    // The stem has the exact GELU, also if the layers have another form.
    const Value z =
        n("gelu", path + ".gelu",
          {{"x", n.reshape(y, {shape[0] * shape[2], shape[3]})}, {"approximate", "none"}});
    return n.reshape(z, shape);
  }

  void encode(Net& n) const {
    const int64_t channels = config_.channels, source = config_.source, frames = 2 * source;
    const Expr requests = n.axis("B"), tokens = requests * source;
    const Value features = n.input("input_features", DType::f32, {requests, config_.mel, frames});
    Value x = n("transpose", "input_features",
                {{"x", features}, {"out", std::string(name(n.limits().dtype))}});
    x = convolve(n, "model.encoder.conv1", n.reshape(x, {requests, 1, frames, config_.mel}), 1);
    x = convolve(n, "model.encoder.conv2", x, 2);
    x = add_positions(n, "model.encoder", n.reshape(x, {tokens, channels}),
                      n.input("positions", DType::i64, {tokens}), source);
    begin_layers(n, config_.encoder);
    n.common({{"cu_seqlens", n.input("cu_seqlens", DType::i32, {requests + 1})},
              {"max_seqlen", Expr(source)}});
    for (int64_t i = 0; i < config_.encoder.layers; ++i) {
      n.tap("encoder_hidden." + std::to_string(i), {x});
      x = n("whisper_encoder_layer", layer_name("encoder", i), {{"x", x}});
    }
    x = n("layer_norm", "model.encoder.layer_norm", {{"x", x}});
    n.tap("encoder_hidden." + std::to_string(config_.encoder.layers), {x});
    n.tap("encoder_last_hidden_state", {x});
    const Value slots = n.input("state_slots", DType::i32, {requests});
    for (int64_t i = 0; i < config_.decoder.layers; ++i) {
      leave(n, i, "k", x, slots, {});
      leave(n, i, "v", x, slots, {"bias"});
    }
  }

  // [N,S,H,D]: keys or values of a decoder layer's cross attention.
  Value source_state(Net& n, int64_t layer, const std::string& kind) const {
    const int64_t heads = config_.decoder.heads;
    return n.state(layer_name("decoder", layer) + ".encoder_attn." + kind, n.limits().cache_dtype,
                   {n.axis("N"), config_.source, heads, config_.channels / heads});
  }

  // Projects the encoder's output of each request and writes the result into the request's slot.
  void leave(Net& n, int64_t layer, const std::string& kind, Value x, Value slots,
             const std::vector<std::string>& with) const {
    const std::string path = layer_name("decoder", layer) + ".encoder_attn." + kind + "_proj";
    const Value y = n("linear", path,
                      {{"out_features", config_.channels},
                       {"x", x},
                       {"out", std::string(name(n.limits().cache_dtype))}},
                      with);
    const int64_t all = config_.source * config_.channels;
    const Value state = source_state(n, layer, kind);
    n("scatter_rows", path + ".state",
      {{"x", n.reshape(y, {n.shape(slots)[0], all})},
       {"rows", slots},
       {"out", n.reshape(state, {n.shape(state)[0], all})}});
  }

  void decode(Net& n, const std::string& phase) const {
    DecoderStep step = begin_batch(n, phase);
    n.common({{"state_slots", n.input("state_slots", DType::i32, {step.requests})},
              {"source_lens", n.input("source_lens", DType::i32, {step.requests})}});
    look_up(n, step, config_.words);
    Value x = add_positions(n, "model.decoder", step.hidden, step.positions, config_.target);
    begin_layers(n, config_.decoder);
    for (int64_t i = 0; i < config_.decoder.layers; ++i) {
      n.tap("decoder_hidden." + std::to_string(i), {x});
      x = n(
          "whisper_decoder_layer", layer_name("decoder", i),
          {{"x", x}, {"source_k", source_state(n, i, "k")}, {"source_v", source_state(n, i, "v")}});
    }
    x = n("layer_norm", "model.decoder.layer_norm", {{"x", x}});
    n.tap("decoder_hidden." + std::to_string(config_.decoder.layers), {x});
    sample_rows(n, step, x, config_.words);
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
