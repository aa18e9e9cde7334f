// SPDX-License-Identifier: Apache-2.0
// FLUX.1: one encoder of texts gives a vector and another one a state of each token, once for an
// image. Layers of transformers with two streams, then with one, turn noise into a latent of
// patches. A decoder makes the image. The strength of guidance is an input like the time, so an
// image is computed once in a step.
#include <fmt/format.h>

#include <cmath>

#include "baselines/models/parts/diffusers/clip_text.hpp"
#include "baselines/models/parts/diffusers/image_decoder.hpp"
#include "baselines/models/parts/diffusers/t5_text.hpp"
#include "baselines/models/parts/diffusers/unet.hpp"
#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/engines/denoise/engine.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;

constexpr int64_t kPatch = 2;           // rows and columns of latents in a patch
constexpr int64_t kTimeChannels = 256;  // of an embedded time
constexpr int64_t kMlpTimes = 4;        // hidden width over channels
constexpr double kBlockEps = 1e-6;
constexpr double kRopeBase = 10000;
constexpr double kTimes = 1000;  // of the training; a strength of guidance is multiplied too

struct FluxConfig {
  int64_t rows = 0, columns = 0;  // of patches
  int64_t channels = 0;           // of a patch
  int64_t text_tokens = 0;
  int64_t layers = 0, single_layers = 0, heads = 0, head_dim = 0;
  Ints rope;  // channels of a head that turn by the token's kind, row and column
  double guidance = 0;
  bool guided = false;  // there is an embedding of the strength
  ClipText pooled;
  T5Text text;
  ImageDecoder decoder;
  DiffusionSampler sampler;
  int64_t hidden() const { return heads * head_dim; }
  int64_t patches() const { return rows * columns; }
  int64_t tokens() const { return text_tokens + patches(); }
};

void read_transformer(const Config& config, FluxConfig& c) {
  need_text(config, "_class_name", "FluxTransformer2DModel");
  need_number(config, "patch_size", 1);
  c.channels = read_count(config, "in_channels");
  if (config.has("out_channels") && config.integer("out_channels") != c.channels)
    config.fail_at("out_channels", "it must be in_channels");
  c.layers = read_count(config, "num_layers");
  c.single_layers = read_count(config, "num_single_layers");
  c.heads = read_count(config, "num_attention_heads");
  c.head_dim = read_count(config, "attention_head_dim");
  if (config.integer("joint_attention_dim") != c.text.hidden)
    config.fail_at("joint_attention_dim", "it must be d_model of text_encoder_2");
  if (config.integer("pooled_projection_dim") != c.pooled.hidden)
    config.fail_at("pooled_projection_dim", "it must be hidden_size of text_encoder");
  c.guided = config.boolean("guidance_embeds", false);
  c.rope = config.has("axes_dims_rope") ? config.integers("axes_dims_rope") : Ints{16, 56, 56};
  if (c.rope.size() != 3) config.fail_at("axes_dims_rope", "it needs three widths");
  int64_t sum = 0;
  for (const int64_t width : c.rope) {
    sum += bounded(config, "axes_dims_rope", width, kCountMax);
    if (width % 2 != 0) config.fail_at("axes_dims_rope", "each must be even");
  }
  if (sum != c.head_dim) config.fail_at("axes_dims_rope", "their sum must be attention_head_dim");
}

// The image's rows or columns of patches.
int64_t read_patches(const Config& config, const char* key, int64_t step) {
  const int64_t side = bounded(config, key, config.integer(key), kCountMax);
  if (side % step != 0) config.fail_at(key, fmt::format("it must be a multiple of {}", step));
  return side / step;
}

FluxConfig read_flux(const Config& config) {
  FluxConfig c;
  c.pooled = read_clip_text(config.child("text_encoder"), false);
  c.text = read_t5_text(config.child("text_encoder_2"));
  c.text_tokens = read_count(config, "max_sequence_length");
  read_transformer(config.child("transformer"), c);
  c.decoder = read_image_decoder(config.child("vae"));
  if (c.decoder.latents * kPatch * kPatch != c.channels)
    config.child("vae").fail_at("latent_channels", "it must be a quarter of in_channels");
  c.rows = read_patches(config, "height", kPatch * c.decoder.factor());
  c.columns = read_patches(config, "width", kPatch * c.decoder.factor());
  if (c.guided)
    c.guidance = config.number("guidance_scale");
  else
    config.ignore("guidance_scale");
  c.sampler = read_sampler(config.child("scheduler"), read_count(config, "num_inference_steps"),
                           c.patches());
  if (c.sampler.range > 0)
    config.child("scheduler").fail_at("clip_sample", "only false is supported here");
  return c;
}

// Cosines, or sines, of all channels of a head for the tokens of text and image. Neighbours share
// an angle. The text is at place (0, 0), and all tokens are of kind 0.
std::vector<double> flux_rope(const FluxConfig& c, bool sines) {
  std::vector<double> all;
  for (int64_t t = 0; t < c.tokens(); ++t) {
    const int64_t patch = t - c.text_tokens;
    const int64_t place[] = {0, patch < 0 ? 0 : patch / c.columns,
                             patch < 0 ? 0 : patch % c.columns};
    for (size_t axis = 0; axis < c.rope.size(); ++axis)
      for (int64_t i = 0; i < c.rope[axis]; ++i) {
        const double share = static_cast<double>(i / 2 * 2) / static_cast<double>(c.rope[axis]);
        const double angle = static_cast<double>(place[axis]) * std::pow(kRopeBase, -share);
        all.push_back(sines ? std::sin(angle) : std::cos(angle));
      }
  }
  return all;
}

class Flux : public Model {
 public:
  explicit Flux(const Config& config) : config_(read_flux(config)) {}

  std::unique_ptr<Engine> engine() const override {
    const FluxConfig& c = config_;
    RequestTensor prompt{"prompt_ids", {c.pooled.positions}};
    prompt.below = c.pooled.vocabulary;
    prompt.dtype = DType::i64;
    RequestTensor prompt_2{"prompt_ids_2", {c.text_tokens}};
    prompt_2.below = c.text.vocabulary;
    prompt_2.dtype = DType::i64;
    return denoise_engine({.inputs = {{"noise", {c.patches(), c.channels}}, prompt, prompt_2},
                           .sampler = c.sampler,
                           .outputs = {"latents", "image"},
                           .ends = true});
  }

  void forward(Net& n, const std::string& phase) const override {
    if (phase == "begin")
      begin(n);
    else if (phase == "step")
      step(n);
    else
      end(n);
  }

  std::vector<Unread> unread() const override {
    std::vector<Unread> all = unread_encoder("vae");
    for (auto& more : unread_t5("text_encoder_2")) all.push_back(std::move(more));
    all.push_back({"text_encoder.text_model.embeddings.position_ids", "numbers"});
    return all;
  }

 private:
  Value latent(Net& n) const {
    return n.state("latent", DType::f32, {n.axis("B"), config_.patches(), config_.channels});
  }
  Value context(Net& n) const {
    return n.state("context", n.limits().dtype,
                   {n.axis("B"), config_.text_tokens, config_.hidden()});
  }
  // The pooled text and the strength of guidance, as a summand of the embedded time.
  Value added(Net& n) const {
    return n.state("added", n.limits().dtype, {n.axis("B"), config_.hidden()});
  }
  static Value rows_of(Net& n, Value v) {
    const Dims shape = n.shape(v);
    return n.reshape(v, {shape[0] * shape[1], shape[2]});
  }
  Value product(Net& n, const std::string& path, Value x, int64_t width, Value out = {}) const {
    Args args = {{"out_features", width}, {"x", x}};
    if (out) args.emplace_back("out", out);
    return n("linear", path, args, {"bias"});
  }
  // linear_1, silu, linear_2; the result is in `out` where it is given.
  Value embedding_mlp(Net& n, const std::string& name, Value x, Value out = {}) const {
    const std::string path = "transformer.time_text_embed." + name;
    x = product(n, path + ".linear_1", x, config_.hidden());
    x = n("activation", path + ".act", {{"kind", "silu"}, {"x", x}});
    return product(n, path + ".linear_2", x, config_.hidden(), out);
  }
  Value embedded_time(Net& n, const std::string& name, Value t) const {
    return n("sinusoidal_embedding", "transformer.time_text_embed." + name,
             {{"size", kTimeChannels},
              {"flip_sin_to_cos", true},
              {"downscale_freq_shift", 0.0},
              {"t", t},
              {"out", std::string(fk::name(n.limits().dtype))}});
  }

  void begin(Net& n) const {
    const FluxConfig& c = config_;
    const std::vector<Value> prompt = {
        n.input("prompt_ids", DType::i64, {n.axis("B"), c.pooled.positions})};
    const std::string clip = "text_encoder.text_model";
    const ClipStates states = clip_states(n, clip, c.pooled, prompt, true);
    const Value pooled = clip_pooled(n, clip, c.pooled, prompt, states.last);
    n.tap("pooled", {pooled});
    add_conditions(n, pooled);
    const Value ids = n.input("prompt_ids_2", DType::i64, {n.axis("B"), c.text_tokens});
    const Value text = t5_states(n, "text_encoder_2", c.text, ids);
    n.tap("text", {text});
    product(n, "transformer.context_embedder", text, c.hidden(), rows_of(n, context(n)));
    n("scaled_add", "noise",
      {{"scale", c.sampler.noise},
       {"y", rows_of(n, n.input("noise", DType::f32, n.shape(latent(n))))},
       {"out", rows_of(n, latent(n))}});
  }

  void add_conditions(Net& n, Value pooled) const {
    if (!config_.guided) {
      embedding_mlp(n, "text_embedder", pooled, added(n));
      return;
    }
    const Value text = embedding_mlp(n, "text_embedder", pooled);
    const Value strength =
        computed(n, "transformer.guidance", DType::f32, {1},
                 [by = config_.guidance] { return std::vector<double>{kTimes * by}; });
    const Value guidance =
        embedding_mlp(n, "guidance_embedder", embedded_time(n, "guidance_proj", strength));
    const Value same = repeated_row(n, "transformer.guidances", guidance, n.axis("B"));
    n("add", "transformer.added", {{"a", text}, {"b", same}, {"out", added(n)}});
  }

  Value time_of_step(Net& n) const {
    const Value t = embedded_time(n, "time_proj", n.input("time", DType::f32, {n.axis("B")}));
    const Value time = embedding_mlp(n, "timestep_embedder", t);
    return n("add", "transformer.temb", {{"a", time}, {"b", added(n)}});
  }

  // The latent in the dtype of activations.
  Value scaled_latent(Net& n) const {
    const Value scaled =
        n.zeros(n.limits().dtype, {n.axis("B") * config_.patches(), config_.channels});
    n("linear_combination", "transformer.sample",
      {{"num_terms", 1},
       {"coefficients", n.input("input_coefficients", DType::f32, {2})},
       {"x", std::vector<Value>{rows_of(n, latent(n))}},
       {"out", scaled}});
    return scaled;
  }

  Value transformer(Net& n, Value temb) const {
    const FluxConfig& c = config_;
    const Expr batch = n.axis("B");
    const auto table = [&](const char* name, bool sines) {
      return computed(n, name, DType::f32, {c.tokens(), c.head_dim},
                      [c, sines] { return flux_rope(c, sines); });
    };
    n.common({{"num_heads", c.heads},
              {"head_dim", c.head_dim},
              {"scale", 1 / std::sqrt(static_cast<double>(c.head_dim))},
              {"rotary_dim", c.head_dim},
              {"intermediate_size", kMlpTimes * c.hidden()},
              {"eps", kBlockEps},
              {"cos", table("transformer.rope.cos", false)},
              {"sin", table("transformer.rope.sin", true)},
              {"temb", temb}});
    Value x = n.reshape(product(n, "transformer.x_embedder", scaled_latent(n), c.hidden()),
                        {batch, c.patches(), c.hidden()});
    Value text = context(n);
    for (int64_t i = 0; i < c.layers; ++i) {
      const Outputs both = n("mm_dit_block", fmt::format("transformer.transformer_blocks.{}", i),
                             {{"x", x}, {"context", text}});
      x = both["out"], text = both["context_out"];
      n.tap(fmt::format("image.{}", i), {x});
      n.tap(fmt::format("text.{}", i), {text});
    }
    x = n("prepend_rows", "transformer.tokens",
          {{"prefix_rows", c.text_tokens}, {"x", x}, {"before", text}});
    for (int64_t i = 0; i < c.single_layers; ++i) {
      x = n("single_dit_block", fmt::format("transformer.single_transformer_blocks.{}", i),
            {{"x", x}});
      n.tap(fmt::format("tokens.{}", i), {x});
    }
    return n("prepend_rows", "transformer.patches",
             {{"prefix_rows", 0}, {"x", n.slice(x, 1, c.text_tokens, c.patches())}});
  }

  // The norm behind the last block, whose scale and shift the time gives, and the last product.
  Value predicted(Net& n, Value x, Value temb) const {
    const FluxConfig& c = config_;
    const std::string path = "transformer.norm_out";
    const Value silu = n("activation", path + ".silu", {{"kind", "silu"}, {"x", temb}});
    const Value both = product(n, path + ".linear", silu, 2 * c.hidden());
    const Value normed =
        n("layer_norm", path + ".norm",
          {{"eps", kBlockEps}, {"weight", Value{}}, {"bias", Value{}}, {"x", rows_of(n, x)}});
    const Value moved = n("modulate", path,
                          {{"x", n.reshape(normed, n.shape(x))},
                           {"scale", n.slice(both, 1, 0, c.hidden())},
                           {"shift", n.slice(both, 1, c.hidden(), c.hidden())}});
    return product(n, "transformer.proj_out", rows_of(n, moved), c.channels);
  }

  void step(Net& n) const {
    const Value temb = time_of_step(n);
    const Value prediction = predicted(n, transformer(n, temb), temb);
    n("linear_combination", "scheduler.step",
      {{"num_terms", 1},
       {"coefficients", n.input("coefficients", DType::f32, {2})},
       {"x", std::vector<Value>{prediction}},
       {"out", rows_of(n, latent(n))}});
    n.tap("latents", {latent(n)});
  }

  // A patch has the channels of its pixels, channel by channel.
  Value latent_image(Net& n) const {
    const FluxConfig& c = config_;
    const Expr batch = n.axis("B");
    const int64_t each = kPatch * kPatch, depth = c.channels / each;
    const Value pixels = n("transpose", "unpack.pixels",
                           {{"x", n.reshape(latent(n), {batch * c.patches(), depth, each})}});
    const Value order = computed(n, "unpack.order", DType::i32, {c.patches() * each}, [c, each] {
      std::vector<double> all;
      for (int64_t y = 0; y < c.rows * kPatch; ++y)
        for (int64_t x = 0; x < c.columns * kPatch; ++x)
          all.push_back(static_cast<double>((y / kPatch * c.columns + x / kPatch) * each +
                                            y % kPatch * kPatch + x % kPatch));
      return all;
    });
    const Value image =
        n("select_rows", "unpack",
          {{"x", n.reshape(pixels, {batch, c.patches() * each, depth})}, {"rows", order}});
    return n.reshape(image, {batch, c.rows * kPatch, c.columns * kPatch, depth});
  }

  void end(Net& n) const {
    n.output("latents", latent(n));
    n.output("image", decoded_image(n, "vae", config_.decoder, latent_image(n)));
  }

  FluxConfig config_;
};

std::unique_ptr<Model> make_flux(const Config& config) { return std::make_unique<Flux>(config); }

FK_MODEL(flux, make_flux, {"FluxPipeline"}, {"flux"},
         {"_diffusers_version", "_name_or_path", "dropout", "initializer_factor"});

}  // namespace
}  // namespace fk
