// SPDX-License-Identifier: Apache-2.0
// Oasis: a world in frames, under actions of a player. An encoder makes latents of the first
// frames. A diffusion transformer then turns the noise of one frame after the other into a latent.
// Tokens see the tokens of their frame, then those of earlier frames in the same place. Frames
// which exist do not change, so their keys and values are kept. A decoder makes the images.
#include <fmt/format.h>

#include <cmath>

#include "baselines/models/parts/diffusers/unet.hpp"
#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/oasis_sizes.hpp"
#include "baselines/models/parts/vit.hpp"
#include "core/engines/rollout/engine.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;

constexpr int64_t kOasisTime = 256;  // of an embedded time
constexpr double kOasisEps = 1e-6;
constexpr double kMostOfPixels = 256;  // the fastest angle of the transformer's places

class Oasis : public Model {
 public:
  explicit Oasis(const Config& config) : config_(read_oasis(config)) {}

  std::unique_ptr<Engine> engine() const override {
    const OasisConfig& c = config_;
    const int64_t height = c.rows * c.vae_patch, width = c.columns * c.vae_patch;
    return rollout_engine(
        {.inputs = {{"frames", {c.prompt_frames, kOasisColours, height, width}},
                    {"noise", {c.frames - c.prompt_frames, c.rows, c.columns, c.channels}},
                    {"actions", {c.frames, c.actions}}},
         .prompt_frames = c.prompt_frames,
         .frames = c.frames,
         .window = c.window,
         .sampler = c.sampler,
         .seen_time = c.seen_time,
         .outputs = {"latents", "video"}});
  }

  void forward(Net& n, const std::string& phase) const override {
    n.rename({{"self_attn.out_proj", "attn.proj"},
              {"self_attn", "attn"},
              {"layer_norm1", "norm1"},
              {"layer_norm2", "norm2"},
              {"spatial.attn", "s_attn"},
              {"spatial.mlp", "s_mlp"},
              {"spatial.adaLN_modulation", "s_adaLN_modulation"}});
    n.adapt(fused);
    if (phase == "prompt")
      prompt(n);
    else if (phase == "frame")
      tokens_of_frame(n, embedded_conditions(n), false);
    else if (phase == "step")
      step(n);
    else
      decode(n);
  }

  std::vector<Unread> unread() const override {
    std::vector<Unread> all = {{"dit.spatial_rotary_emb.", "angles"},
                               {"dit.temporal_rotary_emb.", "angles"}};
    for (int64_t i = 0; i < config_.layers; ++i)
      for (const char* half : {"s", "t"})
        all.push_back({fmt::format("dit.blocks.{}.{}_attn.rotary_emb.", i, half), "angles"});
    return all;
  }

 private:
  // Checkpoints have queries, keys and values in one tensor, and a deviation behind each mean.
  static void fused(WeightSpec& spec) {
    if (const size_t at = spec.name.find("attn.qkv_proj."); at != std::string::npos) {
      spec.name.replace(at, 14, "attn.qkv.");
      spec.parts = {{spec.name}};
    }
  }

  // All latents of all frames, frames first.
  Value latents(Net& n) const {
    return n.state("latents", DType::f32,
                   {config_.frames, n.axis("B"), config_.latents() * config_.channels});
  }
  Value actions(Net& n) const {
    return n.state("actions", DType::f32, {config_.frames, n.axis("B"), config_.actions});
  }
  // The rows [B, C] of the frame at hand.
  static Value of_frame(Net& n, Value all) {
    const Dims shape = n.shape(all);
    return n.reshape(n.slice(all, 0, n.axis("E") - 1, 1), {shape[1], shape[2]});
  }
  Value latent(Net& n) const {
    return n.reshape(of_frame(n, latents(n)),
                     {n.axis("B"), config_.rows, config_.columns, config_.channels});
  }
  static Value product(Net& n, const std::string& path, Value x, int64_t width) {
    return n("linear", path,
             {{"out_features", width}, {"x", x}, {"out", std::string(name(n.limits().dtype))}},
             {"bias"});
  }
  static Value rows_of(Net& n, Value v) {
    const Dims shape = n.shape(v);
    Expr rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
    return n.reshape(v, {rows, shape.back()});
  }
  // Requests first becomes frames first, in frames [start, start + count) of a state.
  static void by_frame(Net& n, const std::string& path, Value x, Value all, int64_t start) {
    const Value turned = n.permute(x, {1, 0, 2});
    n("prepend_rows", path,
      {{"prefix_rows", 0}, {"x", turned}, {"out", n.slice(all, 0, start, n.shape(turned)[0])}});
  }

  // The layers over the patches of an image, x [images, patches, C].
  Value patch_layers(Net& n, const std::string& path, const PatchNet& net, Value x) const {
    const OasisConfig& c = config_;
    const int64_t width = net.hidden / net.heads, turning = width / 2;
    const auto table = [&](const char* name, auto function) {
      return computed(n, fmt::format("{}.{}", path, name), DType::f32, {c.latents(), turning},
                      [c, turning, function] {
                        auto angles = pixel_angles(c.rows, c.columns, turning / 2,
                                                   static_cast<double>(c.latents()));
                        for (double& angle : angles) angle = function(angle);
                        return angles;
                      });
    };
    const Args common = {{"num_heads", net.heads},
                         {"head_dim", width},
                         {"scale", 1 / std::sqrt(static_cast<double>(width))},
                         {"rotary_dim", turning},
                         {"interleaved", true},
                         {"intermediate_size", net.mlp},
                         {"eps", kOasisEps},
                         {"cos", table("cos", [](double a) { return std::cos(a); })},
                         {"sin", table("sin", [](double a) { return std::sin(a); })}};
    for (int64_t i = 0; i < net.layers; ++i) {
      Args args = common;
      args.emplace_back("x", x);
      x = n("vit_layer", fmt::format("{}.{}", path, i), args);
      n.tap(fmt::format("{}.{}", path, i), {x});
    }
    return x;
  }

  void prompt(Net& n) const {
    const OasisConfig& c = config_;
    const Expr batch = n.axis("B"), images = batch * c.prompt_frames;
    const int64_t height = c.rows * c.vae_patch, width = c.columns * c.vae_patch;
    const Value input =
        n.input("frames", DType::f32, {batch, c.prompt_frames, kOasisColours, height, width});
    const Value image = n("transpose", "vae.frames",
                          {{"x", n.reshape(input, {images, kOasisColours, height * width})},
                           {"out", std::string(name(n.limits().weights()))}});
    Value x = patch_rows(n, "vae.patch_embed.proj",
                         n.reshape(image, {images, height, width, kOasisColours}), c.encoder.hidden,
                         c.vae_patch);
    x = patch_layers(n, "vae.encoder", c.encoder, x);
    x = by_rows(n, "layer_norm", "vae.enc_norm", x, {{"eps", kOasisEps}});
    const Value scaled = n("scaled_add", "vae.scaling", {{"scale", c.scaling}, {"y", means(n, x)}});
    by_frame(n, "latents", n.reshape(scaled, {batch, c.prompt_frames, c.latents() * c.channels}),
             latents(n), 0);

    const int64_t later = c.frames - c.prompt_frames;
    const Value noise = n.input("noise", DType::f32, {batch, later, c.rows, c.columns, c.channels});
    const Value cut = n("activation", "noise",
                        {{"kind", "clamp"}, {"alpha", c.noise_most}, {"x", rows_of(n, noise)}});
    by_frame(n, "noise", n.reshape(cut, {batch, later, c.latents() * c.channels}), latents(n),
             c.prompt_frames);
    by_frame(n, "actions", n.input("actions", DType::f32, {batch, c.frames, c.actions}), actions(n),
             0);
  }

  // Means of the latents in float32; a variational encoder has their deviations behind them.
  Value means(Net& n, Value x) const {
    const OasisConfig& c = config_;
    const auto part = [&](const char* name, std::vector<int64_t> shape) {
      WeightSpec spec;
      spec.name = std::string("vae.quant_conv.") + name;
      spec.dtype = n.limits().weights();
      spec.shape = shape;
      if (shape.size() == 1) spec.stddev = 0.1;
      if (c.variational) {
        std::vector<int64_t> whole = shape;
        whole[0] *= 2;
        std::vector<int> order(shape.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
        spec.view = PartView{whole, 0, 0, shape[0], order};
      }
      return n.weight(std::move(spec));
    };
    return n("linear", "vae.quant_conv",
             {{"weight", part("weight", {c.channels, c.encoder.hidden})},
              {"bias", part("bias", {c.channels})},
              {"x", rows_of(n, x)},
              {"out", std::string(name(DType::f32))}});
  }

  // The embedded time and action of the frame at hand, [B, C].
  Value embedded_conditions(Net& n) const {
    const int64_t width = config_.hidden;
    Value t = n("sinusoidal_embedding", "dit.t_embedder",
                {{"size", kOasisTime},
                 {"flip_sin_to_cos", true},
                 {"downscale_freq_shift", 0.0},
                 {"t", n.input("time", DType::f32, {n.axis("B")})},
                 {"out", std::string(name(n.limits().dtype))}});
    t = product(n, "dit.t_embedder.mlp.0", t, width);
    t = n("activation", "dit.t_embedder.mlp.1", {{"kind", "silu"}, {"x", t}});
    t = product(n, "dit.t_embedder.mlp.2", t, width);
    const Value action = product(n, "dit.external_cond", of_frame(n, actions(n)), width);
    return n("add", "dit.conditions", {{"a", t}, {"b", action}});
  }

  // The tokens of the frame at hand behind all layers. Each layer keeps keys and values.
  Value tokens_of_frame(Net& n, Value temb, bool tapped) const {
    const OasisConfig& c = config_;
    Value x = patch_rows(n, "dit.x_embedder.proj", lowered(n, "dit.latent", latent(n)), c.hidden,
                         c.patch);
    const auto table = [&](const char* name, bool sines) {
      return computed(n, fmt::format("dit.spatial.{}", name), DType::f32,
                      {c.tokens(), c.head_dim()}, [c, sines] {
                        auto all = pixel_angles(c.rows / c.patch, c.token_columns(),
                                                c.head_dim() / 2, kMostOfPixels);
                        for (double& a : all) a = sines ? std::sin(a) : std::cos(a);
                        return all;
                      });
    };
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string path = fmt::format("dit.blocks.{}", i);
      x = n("dit_block", path + ".spatial",
            {{"num_heads", c.heads},
             {"head_dim", c.head_dim()},
             {"scale", 1 / std::sqrt(static_cast<double>(c.head_dim()))},
             {"rotary_dim", c.head_dim()},
             {"intermediate_size", c.mlp},
             {"eps", kOasisEps},
             {"cos", table("cos", false)},
             {"sin", table("sin", true)},
             {"temb", temb},
             {"x", x}});
      x = seen_before(n, path + ".t_", temb, x);
      if (tapped) n.tap(fmt::format("hidden.{}", i), {x});
    }
    return x;
  }

  // Vector `which` of the rows [B, count * C], [B, C] with gaps.
  Value vector(Net& n, Value rows, int64_t which) const {
    return n.slice(rows, 1, which * config_.hidden, config_.hidden);
  }
  Value modulated(Net& n, const std::string& path, Value x, Value shift, Value scale) const {
    const Value normed =
        n("layer_norm", path,
          {{"eps", kOasisEps}, {"weight", Value{}}, {"bias", Value{}}, {"x", rows_of(n, x)}});
    return n("modulate", path + ".modulate",
             {{"x", n.reshape(normed, n.shape(x))}, {"shift", shift}, {"scale", scale}});
  }
  static Value gated_sum(Net& n, const std::string& path, Value x, Value y, Value gate) {
    const Value gated = n("modulate", path + ".gate",
                          {{"offset", 0.0}, {"x", n.reshape(y, n.shape(x))}, {"scale", gate}});
    return n.reshape(n("add", path + ".sum", {{"a", rows_of(n, x)}, {"b", rows_of(n, gated)}}),
                     n.shape(x));
  }

  // The second half of a layer: a token sees the tokens of earlier frames in its place.
  Value seen_before(Net& n, const std::string& path, Value temb, Value x) const {
    const OasisConfig& c = config_;
    const Value silu = n("activation", path + "silu", {{"kind", "silu"}, {"x", temb}});
    const Value m = product(n, path + "adaLN_modulation.1", silu, 6 * c.hidden);
    const Value normed = modulated(n, path + "norm1", x, vector(n, m, 0), vector(n, m, 1));
    const Value mixed = frame_attention(n, path + "attn", rows_of(n, normed));
    const Value sum = gated_sum(n, path + "attn", x, mixed, vector(n, m, 2));
    const Value last = modulated(n, path + "norm2", sum, vector(n, m, 3), vector(n, m, 4));
    const Value wide =
        n("gelu_mlp", path + "mlp",
          {{"approximate", "tanh"}, {"intermediate_size", c.mlp}, {"x", rows_of(n, last)}},
          {"fc1_bias", "fc2_bias"});
    return gated_sum(n, path + "mlp", sum, wide, vector(n, m, 5));
  }

  Value frame_attention(Net& n, const std::string& path, Value x) const {
    const OasisConfig& c = config_;
    const int64_t width = c.head_dim(), all = c.heads * width;
    const Expr rows = n.shape(x)[0], frames = n.axis("T"), place = n.axis("T") - 1;
    const Value qkv = n("linear", path + ".to_qkv", {{"out_features", 3 * all}, {"x", x}});
    const Value by_head = n.reshape(qkv, {rows, 3 * c.heads, width});
    const auto turns = [&](const char* name, bool sines) {
      const Value table = computed(n, fmt::format("dit.temporal.{}", name), DType::f32,
                                   {c.window, width}, [c, width, sines] {
                                     auto angles = frame_angles(c.window, width);
                                     for (double& a : angles) a = sines ? std::sin(a) : std::cos(a);
                                     return angles;
                                   });
      return n.slice(table, 0, place, 1);
    };
    n("rotary_rows", path + ".rope",
      {{"num_heads", c.heads},
       {"num_kv_heads", c.heads},
       {"head_dim", width},
       {"rotary_dim", width},
       {"interleaved", true},
       {"q", n.slice(by_head, 1, 0, c.heads)},
       {"k", n.slice(by_head, 1, c.heads, c.heads)},
       {"cos", turns("cos", false)},
       {"sin", turns("sin", true)}});
    // [rows, T, heads, width] of all frames up to this one, whose part is written first.
    const auto kept = [&](const char* name, int64_t first) {
      const Value memory = n.state(path + "." + name, n.dtype(x), {c.window, rows, all});
      n("prepend_rows", path + "." + name,
        {{"prefix_rows", 0},
         {"x", n.slice(n.reshape(qkv, {1, rows, 3 * all}), 2, first * all, all)},
         {"out", n.slice(memory, 0, place, 1)}});
      return n.permute(n.reshape(n.slice(memory, 0, 0, frames), {frames, rows, c.heads, width}),
                       {1, 0, 2, 3});
    };
    const Value keys = kept("keys", 1), values = kept("values", 2);
    const Value mixed =
        n("biased_attention", path,
          {{"num_heads", c.heads},
           {"num_kv_heads", c.heads},
           {"head_dim", width},
           {"scale", 1 / std::sqrt(static_cast<double>(width))},
           {"q", n.slice(n.reshape(qkv, {rows, 1, 3 * c.heads, width}), 2, 0, c.heads)},
           {"k", keys},
           {"v", values}});
    return product(n, path + ".to_out", n.reshape(mixed, {rows, all}), c.hidden);
  }

  void step(Net& n) const {
    const OasisConfig& c = config_;
    const Value temb = embedded_conditions(n);
    Value x = tokens_of_frame(n, temb, true);
    const std::string path = "dit.final_layer";
    const Value silu =
        n("activation", path + ".adaLN_modulation.0", {{"kind", "silu"}, {"x", temb}});
    const Value m = product(n, path + ".adaLN_modulation.1", silu, 2 * c.hidden);
    x = modulated(n, path + ".norm_final", x, vector(n, m, 0), vector(n, m, 1));
    x = product(n, path + ".linear", rows_of(n, x), c.patch * c.patch * c.channels);
    const Value prediction =
        pixels_of(n, "dit.unpatchify", x, c.token_columns(), c.patch, c.tokens(), c.channels);
    n("linear_combination", "sampler.step",
      {{"num_terms", 1},
       {"coefficients", n.input("coefficients", DType::f32, {2})},
       {"x", std::vector<Value>{rows_of(n, prediction)}},
       {"out", n.reshape(latent(n), {n.axis("B") * c.latents(), c.channels})}});
    n.tap("latents", {latent(n)});
  }

  // [images, pixels, C] of patches, whose rows have their pixels in order, each with C channels.
  static Value pixels_of(Net& n, const std::string& path, Value patches, int64_t columns,
                         int64_t patch, int64_t count, int64_t channels) {
    const int64_t each = patch * patch, pixels = count * each;
    const Value order = computed(n, path + ".order", DType::i32, {pixels}, [=] {
      std::vector<double> all;
      for (int64_t i = 0; i < pixels; ++i) {
        const int64_t y = i / (columns * patch), x = i % (columns * patch);
        all.push_back(static_cast<double>((y / patch * columns + x / patch) * each +
                                          y % patch * patch + x % patch));
      }
      return all;
    });
    return n("select_rows", path,
             {{"x", n.reshape(patches, {n.axis("B"), pixels, channels})}, {"rows", order}});
  }

  void decode(Net& n) const {
    const OasisConfig& c = config_;
    const Expr batch = n.axis("B");
    n.output("latents", latent(n));
    Value x = lowered(n, "vae.latent", latent(n), 1 / c.scaling);
    x = product(n, "vae.post_quant_conv", rows_of(n, x), c.decoder.hidden);
    x = patch_layers(n, "vae.decoder", c.decoder,
                     n.reshape(x, {batch, c.latents(), c.decoder.hidden}));
    x = by_rows(n, "layer_norm", "vae.dec_norm", x, {{"eps", kOasisEps}});
    const int64_t each = c.vae_patch * c.vae_patch;
    x = product(n, "vae.predictor", rows_of(n, x), kOasisColours * each);
    // A patch has its pixels colour by colour.
    const Value pixels = n("transpose", "vae.colours",
                           {{"x", n.reshape(x, {batch * c.latents(), kOasisColours, each})}});
    const Value image =
        pixels_of(n, "vae.unpatchify", pixels, c.columns, c.vae_patch, c.latents(), kOasisColours);
    n.output("video", n.reshape(image, {batch, c.rows * c.vae_patch, c.columns * c.vae_patch,
                                        kOasisColours}));
  }

  OasisConfig config_;
};

std::unique_ptr<Model> make_oasis(const Config& config) { return std::make_unique<Oasis>(config); }

FK_MODEL(oasis, make_oasis, {"OasisPipeline"}, {"oasis"});

}  // namespace
}  // namespace fk
