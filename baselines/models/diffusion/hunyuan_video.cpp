// SPDX-License-Identifier: Apache-2.0
// HunyuanVideo 1.5: two encoders of texts, once for a video: a language model, and T5 for the words
// which the video shows. In each step, a refiner brings the time into the text, and layers of two
// streams turn noise into latents of frames. A decoder makes the video. A step computes a video
// with its text and with its negative text: the videos with their texts come first in a batch.
#include <fmt/format.h>

#include <cmath>

#include "baselines/models/parts/diffusers/hunyuan_sizes.hpp"
#include "baselines/models/parts/diffusers/unet.hpp"
#include "baselines/models/parts/image.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;

constexpr int64_t kStepChannels = 256;  // of an embedded time
constexpr double kHunyuanEps = 1e-6, kGlyphEps = 1e-5;

class HunyuanVideo : public Model {
 public:
  explicit HunyuanVideo(const Config& config) : config_(read_hunyuan(config)) {}

  std::unique_ptr<Engine> engine() const override {
    const HunyuanConfig& c = config_;
    std::vector<RequestTensor> inputs = {{"noise", {c.frames, c.rows, c.columns, c.channels}}};
    for (const std::string text : {"prompt", "negative"}) {
      if (text == "negative" && c.copies() == 1) continue;
      const auto add = [&](const std::string& suffix, int64_t tokens, int64_t vocabulary) {
        RequestTensor ids{text + "_ids" + suffix, {tokens}},
            mask{text + "_mask" + suffix, {tokens}};
        ids.below = vocabulary;
        ids.dtype = DType::i64;
        mask.below = 2;
        inputs.push_back(ids);
        inputs.push_back(mask);
      };
      add("", c.crop + c.text_tokens, c.text.vocabulary);
      add("_2", c.glyph_tokens, c.glyphs.vocabulary);
    }
    return denoise_engine({.inputs = inputs,
                           .sampler = c.sampler,
                           .guidance = c.guidance,
                           .outputs = {"latents", "video"},
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
    std::vector<Unread> all = unread_video_encoder("vae");
    for (auto& more : unread_t5("text_encoder_2")) all.push_back(std::move(more));
    all.push_back({"transformer.image_embedder.", "a projection of images to begin with"});
    all.push_back({"text_encoder.norm.", "a norm behind the last layer"});
    for (int64_t i = 1; i <= kUnusedLayers; ++i)
      all.push_back({fmt::format("text_encoder.layers.{}.", config_.text.layers - i),
                     "a layer behind the states in use"});
    return all;
  }

 private:
  Expr batch(Net& n) const { return n.axis("B") * config_.copies(); }
  static Value rows_of(Net& n, Value v) {
    const Dims shape = n.shape(v);
    return n.reshape(v, {shape[0] * shape[1], shape[2]});
  }
  static Value product(Net& n, const std::string& path, Value x, int64_t width, Value out = {}) {
    Args args = {{"out_features", width}, {"x", x}};
    if (out) args.emplace_back("out", out);
    return n("linear", path, args, {"bias"});
  }
  static Value activated(Net& n, const std::string& path, Value x) {
    return n("activation", path, {{"kind", "silu"}, {"x", x}});
  }
  // The same rows for the videos with texts and with negative ones: make(out) writes one half.
  template <class Make>
  Value for_both(Net& n, const Expr& rows, int64_t width, Make make) const {
    const Value all = n.empty(n.limits().dtype, {rows * config_.copies(), width});
    for (int64_t i = 0; i < config_.copies(); ++i) make(n.slice(all, 0, rows * i, rows));
    return all;
  }

  Value latent(Net& n) const {
    return n.state("latent", DType::f32, {n.axis("B"), config_.places(), config_.channels});
  }
  Value text(Net& n) const {
    return n.state("text", n.limits().dtype, {batch(n), config_.text_tokens, config_.hidden()});
  }
  Value glyphs(Net& n) const {
    return n.state("glyphs", n.limits().dtype, {batch(n), config_.glyph_tokens, config_.hidden()});
  }
  // The mean of a text, as a summand of the refiner's embedded time.
  Value pooled(Net& n) const {
    return n.state("pooled", n.limits().dtype, {batch(n), config_.hidden()});
  }
  Value text_mask(Net& n) const {
    return n.state("text_mask", DType::f32, {batch(n), 1, config_.text_tokens});
  }
  Value mask(Net& n) const {
    return n.state("mask", DType::f32, {batch(n), 1, config_.context() + config_.places()});
  }

  // The masks of texts and of negative texts, one behind the other.
  Value masks_of(Net& n, const std::string& suffix, int64_t tokens) const {
    const Expr each = n.axis("B");
    const Value prompt = n.input("prompt_mask" + suffix, DType::f32, {each, tokens});
    if (config_.copies() == 1) return prompt;
    const Value negative = n.input("negative_mask" + suffix, DType::f32, {each, tokens});
    const Value both = n.empty(DType::f32, {each * 2, tokens});
    const auto copy = [&](const char* name, Value from, const Expr& start) {
      n("scaled_add", name + suffix,
        {{"scale", 1.0}, {"y", from}, {"out", n.slice(both, 0, start, each)}});
    };
    copy("prompt_mask", prompt, 0);
    copy("negative_mask", negative, each);
    return both;
  }

  void begin(Net& n) const {
    const HunyuanConfig& c = config_;
    const int64_t all = c.crop + c.text_tokens;
    const Value hidden = hidden_keys(n, "hidden", masks_of(n, "", all));
    const Value no_glyphs = hidden_keys(n, "hidden_2", masks_of(n, "_2", c.glyph_tokens));
    masks(n, hidden, no_glyphs);
    // The texts of a kind one after the other, since their ids are whole numbers.
    for (int64_t i = 0; i < c.copies(); ++i) {
      const Expr each = n.axis("B"), start = each * i;
      const std::string kind = i == 0 ? "prompt" : "negative";
      const Value ids = n.input(kind + "_ids", DType::i64, {each, all});
      const Value ids_2 = n.input(kind + "_ids_2", DType::i64, {each, c.glyph_tokens});
      const auto part = [&](Value v) { return n.slice(v, 0, start, each); };
      const Value states = decoder_states(n, "text_encoder", c.text, c.text.layers - kUnusedLayers,
                                          ids, part(hidden));
      begin_text(n, kind, n.reshape(states, {each, all, c.text.hidden}), part(text_mask(n)),
                 part(text(n)), part(pooled(n)));
      const Value words = t5_states(n, "text_encoder_2", c.glyphs, ids_2,
                                    n.reshape(part(no_glyphs), {each, 1, c.glyph_tokens}));
      begin_glyphs(n, words, part(glyphs(n)));
    }
    n("scaled_add", "noise",
      {{"scale", c.sampler.noise},
       {"y", n.reshape(n.input("noise", DType::f32,
                               {n.axis("B"), c.frames, c.rows, c.columns, c.channels}),
                       {n.axis("B") * c.places(), c.channels})},
       {"out", rows_of(n, latent(n))}});
  }

  // Masks lack the tokens of the template. A token of the video is never hidden.
  void masks(Net& n, Value hidden, Value no_glyphs) const {
    const HunyuanConfig& c = config_;
    const Expr all = batch(n);
    const Value kept = computed(n, "text_mask.rows", DType::i32, {c.text_tokens}, [c] {
      std::vector<double> rows;
      for (int64_t t = 0; t < c.text_tokens; ++t) rows.push_back(static_cast<double>(c.crop + t));
      return rows;
    });
    n("select_rows", "text_mask",
      {{"x", n.reshape(hidden, {all, c.crop + c.text_tokens, 1})},
       {"rows", kept},
       {"out", n.reshape(text_mask(n), {all, c.text_tokens, 1})}});
    n("concat_channels", "mask",
      {{"num_parts", 3},
       {"sizes", Ints{c.text_tokens, c.glyph_tokens, c.places()}},
       {"size", c.context() + c.places()},
       {"x", std::vector<Value>{n.reshape(text_mask(n), {all, c.text_tokens}), no_glyphs,
                                n.zeros(DType::f32, {all, c.places()})}},
       {"out", n.reshape(mask(n), {all, c.context() + c.places()})}});
  }

  void begin_text(Net& n, const std::string& kind, Value states, Value hidden, Value out,
                  Value mean) const {
    const HunyuanConfig& c = config_;
    const Expr each = n.shape(states)[0];
    const int64_t width = c.text.hidden;
    const Value text = n("prepend_rows", "text_encoder.cut",
                         {{"prefix_rows", 0}, {"x", n.slice(states, 1, c.crop, c.text_tokens)}});
    n.tap("text." + kind, {text});
    const std::string path = "transformer.context_embedder.";
    product(n, path + "proj_in", rows_of(n, text), c.hidden(), rows_of(n, out));
    // Without scores, attention is the mean of the tokens which are not hidden.
    const Value keys = n.reshape(text, {each, c.text_tokens, 1, width});
    const Value middle = n("biased_attention", path + "mean",
                           {{"num_heads", 1},
                            {"num_kv_heads", 1},
                            {"head_dim", width},
                            {"scale", 0.0},
                            {"q", n.slice(keys, 1, 0, 1)},
                            {"k", keys},
                            {"v", keys},
                            {"mask", hidden}});
    Value x = product(n, path + "time_text_embed.text_embedder.linear_1",
                      n.reshape(middle, {each, width}), c.hidden());
    x = activated(n, path + "time_text_embed.text_embedder.act_1", x);
    product(n, path + "time_text_embed.text_embedder.linear_2", x, c.hidden(), mean);
  }

  void begin_glyphs(Net& n, Value words, Value out) const {
    const HunyuanConfig& c = config_;
    const std::string path = "transformer.context_embedder_2.";
    Value x = n("layer_norm", path + "norm", {{"eps", kGlyphEps}, {"x", words}});
    for (const char* name : {"linear_1", "linear_2"}) {
      x = product(n, path + name, x, config_.glyph_width);
      x = n("gelu", path + name + ".act_fn", {{"x", x}});
    }
    add_kind(n, path + "linear_3", product(n, path + "linear_3", x, c.hidden()), 1,
             rows_of(n, out));
  }

  // x [rows, C] plus the embedding of a kind of tokens.
  Value add_kind(Net& n, const std::string& path, Value x, int64_t kind, Value out) const {
    const Value kinds =
        parameter(n, "transformer.cond_type_embed.weight", {3, config_.hidden()}, 1);
    const Dims shape = n.shape(x);
    return n("modulate", path + ".kind",
             {{"x", n.reshape(x, {1, shape[0], shape[1]})},
              {"shift", n.slice(kinds, 0, kind, 1)},
              {"out", n.reshape(out, {1, shape[0], shape[1]})}});
  }

  // [B, C] of the time, below `path`; the last product is into `out`.
  Value time_rows(Net& n, const std::string& path) const {
    const Value t = n("sinusoidal_embedding", path,
                      {{"size", kStepChannels},
                       {"flip_sin_to_cos", true},
                       {"downscale_freq_shift", 0.0},
                       {"t", n.input("time", DType::f32, {n.axis("B")})},
                       {"out", std::string(name(n.limits().dtype))}});
    const Value x =
        activated(n, path + ".act", product(n, path + ".linear_1", t, config_.hidden()));
    return for_both(n, n.axis("B"), config_.hidden(),
                    [&](Value out) { product(n, path + ".linear_2", x, config_.hidden(), out); });
  }

  // x + gate * y, by tokens of x [B, T, C].
  static Value gated(Net& n, const std::string& path, Value x, Value y, Value gate) {
    const Value part = n("modulate", path + ".gate",
                         {{"offset", 0.0}, {"x", n.reshape(y, n.shape(x))}, {"scale", gate}});
    return n.reshape(n("add", path + ".sum", {{"a", rows_of(n, x)}, {"b", rows_of(n, part)}}),
                     n.shape(x));
  }

  // The text under the time: layers whose gates follow from both.
  Value refined(Net& n) const {
    const HunyuanConfig& c = config_;
    const std::string path = "transformer.context_embedder.";
    const Value time = time_rows(n, path + "time_text_embed.timestep_embedder");
    const Value temb =
        activated(n, path + "temb.silu", n("add", path + "temb", {{"a", time}, {"b", pooled(n)}}));
    Value x = text(n);
    for (int64_t i = 0; i < c.refiners; ++i) {
      const std::string at = fmt::format("{}token_refiner.refiner_blocks.{}.", path, i);
      const Value gates = product(n, at + "norm_out.linear", temb, 2 * c.hidden());
      const auto normed = [&](const char* name) {
        return n("layer_norm", at + name, {{"eps", kHunyuanEps}, {"x", rows_of(n, x)}});
      };
      x = gated(n, at + "attn", x, refiner_attention(n, at + "attn", normed("norm1")),
                n.slice(gates, 1, 0, c.hidden()));
      // Its hidden width is four times the channels, whatever mlp_ratio is.
      const Value wide = activated(
          n, at + "ff.act", product(n, at + "ff.net.0.proj", normed("norm2"), 4 * c.hidden()));
      x = gated(n, at + "ff", x, product(n, at + "ff.net.2", wide, c.hidden()),
                n.slice(gates, 1, c.hidden(), c.hidden()));
      n.tap(fmt::format("refined.{}", i), {x});
    }
    return x;
  }

  Value refiner_attention(Net& n, const std::string& path, Value x) const {
    const HunyuanConfig& c = config_;
    const Expr all = batch(n);
    const auto part = [&](const char* name) {
      return n.reshape(product(n, path + name, x, c.hidden()),
                       {all, c.text_tokens, c.heads, c.head_dim});
    };
    const Value mixed = n("biased_attention", path,
                          {{"num_heads", c.heads},
                           {"num_kv_heads", c.heads},
                           {"head_dim", c.head_dim},
                           {"scale", 1 / std::sqrt(static_cast<double>(c.head_dim))},
                           {"q", part(".to_q")},
                           {"k", part(".to_k")},
                           {"v", part(".to_v")},
                           {"mask", text_mask(n)}});
    return product(n, path + ".to_out.0", n.reshape(mixed, {all * c.text_tokens, c.hidden()}),
                   c.hidden());
  }

  // Tokens of texts [B, S, C].
  Value context(Net& n) const {
    const HunyuanConfig& c = config_;
    const Value x = rows_of(n, refined(n));
    const Value own = n.empty(n.limits().dtype, n.shape(x));
    add_kind(n, "transformer.text", x, 0, own);
    return n("prepend_rows", "transformer.context",
             {{"prefix_rows", c.text_tokens},
              {"before", n.reshape(own, {batch(n), c.text_tokens, c.hidden()})},
              {"x", glyphs(n)}});
  }

  Value scaled_latent(Net& n) const {
    const Value all = rows_of(n, latent(n));
    const Value scaled = n.zeros(n.limits().dtype, n.shape(all));
    n("linear_combination", "transformer.sample",
      {{"num_terms", 1},
       {"coefficients", n.input("input_coefficients", DType::f32, {2})},
       {"x", std::vector<Value>{all}},
       {"out", scaled}});
    return scaled;
  }

  // Tokens of the video [B, places, C]. An image to begin with, and its mask, are zeros here.
  Value video_tokens(Net& n) const {
    const HunyuanConfig& c = config_;
    WeightSpec spec;
    spec.name = "transformer.x_embedder.proj.weight";
    spec.dtype = n.limits().weights();
    spec.shape = {c.hidden(), c.channels};
    spec.view = PartView{{c.hidden(), c.inputs}, 1, 0, c.channels, {0, 1}};
    const Value weight = n.weight(std::move(spec)), x = scaled_latent(n);
    const Value rows = for_both(n, n.axis("B") * c.places(), c.hidden(), [&](Value out) {
      n("linear", "transformer.x_embedder.proj", {{"weight", weight}, {"x", x}, {"out", out}},
        {"bias"});
    });
    return n.reshape(rows, {batch(n), c.places(), c.hidden()});
  }

  Value transformer(Net& n, Value temb) const {
    const HunyuanConfig& c = config_;
    Value x = video_tokens(n), text = context(n);
    const auto table = [&](const char* name, bool sines) {
      return computed(n, name, DType::f32, {c.context() + c.places(), c.head_dim},
                      [c, sines] { return video_rope(c, sines); });
    };
    for (int64_t i = 0; i < c.layers; ++i) {
      const Outputs both = n("mm_dit_block", fmt::format("transformer.transformer_blocks.{}", i),
                             {{"num_heads", c.heads},
                              {"head_dim", c.head_dim},
                              {"scale", 1 / std::sqrt(static_cast<double>(c.head_dim))},
                              {"rotary_dim", c.head_dim},
                              {"intermediate_size", c.mlp},
                              {"eps", kHunyuanEps},
                              {"cos", table("transformer.rope.cos", false)},
                              {"sin", table("transformer.rope.sin", true)},
                              {"mask", mask(n)},
                              {"temb", temb},
                              {"x", x},
                              {"context", text}});
      x = both["out"], text = both["context_out"];
      n.tap(fmt::format("hidden.{}", i), {x});
    }
    return x;
  }

  void step(Net& n) const {
    const HunyuanConfig& c = config_;
    const Value temb = time_rows(n, "transformer.time_embed.timestep_embedder");
    const Value x = transformer(n, temb);
    const std::string path = "transformer.norm_out";
    const Value both =
        product(n, path + ".linear", activated(n, path + ".silu", temb), 2 * c.hidden());
    const Value normed =
        n("layer_norm", path + ".norm",
          {{"eps", kHunyuanEps}, {"weight", Value{}}, {"bias", Value{}}, {"x", rows_of(n, x)}});
    const Value moved = n("modulate", path,
                          {{"x", n.reshape(normed, n.shape(x))},
                           {"scale", n.slice(both, 1, 0, c.hidden())},
                           {"shift", n.slice(both, 1, c.hidden(), c.hidden())}});
    const Value predicted = product(n, "transformer.proj_out", rows_of(n, moved), c.channels);
    std::vector<Value> terms;
    const Expr each = n.axis("B") * c.places();
    for (int64_t i = 0; i < c.copies(); ++i) terms.push_back(n.slice(predicted, 0, each * i, each));
    n("linear_combination", "scheduler.step",
      {{"num_terms", c.copies()},
       {"coefficients", n.input("coefficients", DType::f32, {c.copies() + 1})},
       {"x", terms},
       {"out", rows_of(n, latent(n))}});
    n.tap("latents", {latent(n)});
  }

  void end(Net& n) const {
    const HunyuanConfig& c = config_;
    const Value all = n.reshape(latent(n), {n.axis("B"), c.frames, c.rows, c.columns, c.channels});
    n.output("latents", all);
    n.output("video", decoded_video(n, "vae", c.decoder, all));
  }

  HunyuanConfig config_;
};

std::unique_ptr<Model> make_hunyuan_video(const Config& config) {
  return std::make_unique<HunyuanVideo>(config);
}

FK_MODEL(hunyuan_video, make_hunyuan_video, {"HunyuanVideo15Pipeline"}, {"hunyuan_video"});

}  // namespace
}  // namespace fk
