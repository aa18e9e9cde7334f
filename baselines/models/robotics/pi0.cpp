// SPDX-License-Identifier: Apache-2.0
// Pi0: a policy for robots. A tower makes tokens of the images of all cameras. A language model
// sees them and the text once for an action chunk, and keeps its keys and values. A smaller model
// of the same form, the expert, sees the kept keys, the robot's state, and the actions. Its steps
// turn noise into actions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/diffusers/pi0_sizes.hpp"
#include "baselines/models/parts/diffusers/unet.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;

constexpr double kUnseen = -1e4;  // what a key's score gains where a token must not see the key
const char* const kPaligemma = "paligemma_with_expert.paligemma.model.";
const char* const kExpert = "paligemma_with_expert.gemma_expert.model.";

class Pi0 : public Model {
 public:
  explicit Pi0(const Config& config) : config_(read_pi0(config)) {}

  std::unique_ptr<Engine> engine() const override {
    const Pi0Config& c = config_;
    const int64_t side = c.tower.image_size;
    RequestTensor ids{"prompt_ids", {c.text_tokens}};
    ids.below = c.vocabulary;
    ids.dtype = DType::i64;
    RequestTensor mask{"prompt_mask", {c.text_tokens}}, seen{"pixel_attention_mask", {c.cameras}};
    mask.below = seen.below = 2;
    return denoise_engine({.inputs = {{"pixel_values", {c.cameras, kPiColours, side, side}},
                                      seen,
                                      ids,
                                      mask,
                                      {"state", {c.state}},
                                      {"noise", {c.chunk, c.actions}}},
                           .sampler = c.sampler,
                           .outputs = {"actions"}});
  }

  void forward(Net& n, const std::string& phase) const override {
    n.adapt([](WeightSpec& spec) {
      // Checkpoints have the distance of a norm's weight from 1.
      if (spec.name.find("gemma_expert") == std::string::npos &&
          spec.name.find("language_model") == std::string::npos)
        return;
      if (!spec.name.ends_with("norm.weight")) return;
      spec.dtype = DType::f32;
      spec.mean = 0;
      spec.map = [](double x) { return 1 + x; };
    });
    if (phase == "begin")
      begin(n);
    else
      step(n);
  }

  // The tower is whole on every rank.
  std::string refusal(const Parallel& parallel) const override {
    for (const GemmaSizes& g : {config_.text, config_.expert}) {
      DecoderConfig heads;
      heads.heads = g.heads, heads.kv_heads = g.kv_heads;
      if (const auto why = decoder_refusal(heads, 0, parallel); !why.empty()) return why;
    }
    return "";
  }

  std::vector<Unread> unread() const override {
    const std::string text = std::string(kPaligemma) + "language_model.model.";
    std::vector<Unread> all = {
        {"paligemma_with_expert.gemma_expert.lm_head.", "an embedding of tokens without a use"},
        {"paligemma_with_expert.gemma_expert.model.embed_tokens.", "the same"},
        {text + "norm.", "a norm behind the last layer, whose keys alone are seen"},
        {"paligemma_with_expert.paligemma.lm_head.", "a head for texts"}};
    return all;
  }

 private:
  static Value rows_of(Net& n, Value v) {
    const Dims shape = n.shape(v);
    Expr rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
    return n.reshape(v, {rows, shape.back()});
  }
  // A product whose result has the dtype of activations.
  static Value product(Net& n, const std::string& path, Value x, int64_t width) {
    return n("linear", path,
             {{"out_features", width}, {"x", x}, {"out", std::string(name(n.limits().dtype))}},
             {"bias"});
  }
  Value latent(Net& n) const {
    return n.state("latent", DType::f32, {n.axis("B"), config_.chunk, config_.actions});
  }
  Value state_row(Net& n) const {
    return n.state("state_row", n.limits().dtype, {n.axis("B"), 1, config_.expert.hidden});
  }
  Value kept(Net& n, const char* name, int64_t layer) const {
    const int64_t heads = std::max<int64_t>(1, config_.text.kv_heads / n.parallel().tp);
    return n.state(fmt::format("prefix.{}.{}", layer, name), n.limits().dtype,
                   {n.axis("B"), config_.prefix(), heads * config_.text.head_dim});
  }
  // Tables of the suffix's places, and its mask: a token's row has all kept tokens first.
  Value place(Net& n, const char* name) const {
    return n.state(std::string("suffix.") + name, DType::f32,
                   {n.axis("B") * config_.suffix(), config_.expert.head_dim});
  }
  Value suffix_mask(Net& n) const {
    return n.state("suffix.mask", DType::f32, {n.axis("B"), config_.suffix(), config_.tokens()});
  }

  // [B, cameras * patches, C] of the language model.
  Value images(Net& n) const {
    const Pi0Config& c = config_;
    const Expr batch = n.axis("B"), count = batch * c.cameras;
    const int64_t side = c.tower.image_size, width = c.tower.hidden;
    const std::string path = std::string(kPaligemma) + "vision_tower.";
    const Value input =
        n.input("pixel_values", DType::f32, {batch, c.cameras, kPiColours, side, side});
    const Value image = n("transpose", path + "pixels",
                          {{"x", n.reshape(input, {count, kPiColours, side * side})},
                           {"out", std::string(name(n.limits().weights()))}});
    Value x = patch_rows(n, path + "embeddings.patch_embedding",
                         n.reshape(image, {count, side, side, kPiColours}), width, c.tower.patch);
    const Value places =
        parameter(n, path + "embeddings.position_embedding.weight", {c.patches(), width}, 0.5);
    x = n.reshape(n("modulate", path + "embeddings",
                    {{"x", n.reshape(x, {1, count, c.patches() * width})},
                     {"shift", n.reshape(places, {1, c.patches() * width})}}),
                  {count, c.patches(), width});
    for (int64_t i = 0; i < c.tower.layers; ++i) {
      n.tap(fmt::format("tower_hidden.{}", i), {x});
      x = n("vit_layer", fmt::format("{}encoder.layers.{}", path, i),
            {{"num_heads", c.tower.heads},
             {"head_dim", c.tower.head_dim()},
             {"scale", 1 / std::sqrt(static_cast<double>(c.tower.head_dim()))},
             {"intermediate_size", c.tower.mlp},
             {"approximate", c.tower.approximate},
             {"eps", c.tower.eps},
             {"x", x}});
    }
    x = by_rows(n, "layer_norm", path + "post_layernorm", x, {{"eps", c.tower.eps}});
    x = product(n, std::string(kPaligemma) + "multi_modal_projector.linear", rows_of(n, x),
                c.text.hidden);
    return n.reshape(x, {batch, c.cameras * c.patches(), c.text.hidden});
  }

  // Tokens of the text behind those of the images.
  Value prefix(Net& n) const {
    const Pi0Config& c = config_;
    const Expr batch = n.axis("B");
    const std::string path = std::string(kPaligemma) + "language_model.model.embed_tokens";
    const Value ids = n.input("prompt_ids", DType::i64, {batch, c.text_tokens});
    const Value words = n("embedding", path,
                          {{"num_embeddings", c.vocabulary},
                           {"embedding_dim", c.text.hidden},
                           {"ids", n.reshape(ids, {batch * c.text_tokens})},
                           {"out", std::string(name(n.limits().dtype))}});
    const Value scaled =
        n("scaled_add", path + ".scale",
          {{"scale", std::sqrt(static_cast<double>(c.text.hidden))}, {"y", words}});
    return n("prepend_rows", "prefix",
             {{"prefix_rows", c.cameras * c.patches()},
              {"before", images(n)},
              {"x", n.reshape(scaled, {batch, c.text_tokens, c.text.hidden})}});
  }

  // Tokens [start, start + count) of a request: all, those of the prefix, or those of the suffix.
  struct Part {
    const char* name;
    int64_t start, count;
  };
  Part all_tokens() const { return {"all", 0, config_.tokens()}; }
  Part prefix_tokens() const { return {"prefix", 0, config_.prefix()}; }
  Part suffix_tokens() const { return {"suffix", config_.prefix(), config_.suffix()}; }

  // [B, count] in float32: 1 for a token which others see. Images of absent cameras and the padding
  // of texts are 0.
  Value seen_tokens(Net& n, const Part& part, Value cameras, Value words) const {
    const Pi0Config& c = config_;
    const int64_t images = c.cameras * c.patches(), patches = c.patches(), prefix = c.prefix();
    const auto spread = [&](const char* of, Value x, auto index, auto always) {
      const std::string path = fmt::format("seen.{}.{}", part.name, of);
      const int64_t width = n.shape(x)[1].value();
      const Value weight =
          computed(n, path + ".weight", DType::f32, {part.count, width}, [part, width, index] {
            std::vector<double> all;
            for (int64_t t = 0; t < part.count; ++t)
              for (int64_t i = 0; i < width; ++i) all.push_back(index(part.start + t) == i ? 1 : 0);
            return all;
          });
      const Value bias = computed(n, path + ".bias", DType::f32, {part.count}, [part, always] {
        std::vector<double> all;
        for (int64_t t = 0; t < part.count; ++t) all.push_back(always(part.start + t) ? 1 : 0);
        return all;
      });
      return n("linear", path, {{"weight", weight}, {"bias", bias}, {"x", x}});
    };
    const Value of_images = spread(
        "images", cameras, [=](int64_t t) { return t < images ? t / patches : -1; },
        [](int64_t) { return false; });
    const Value of_text = spread(
        "text", words, [=](int64_t t) { return t < prefix ? t - images : -1; },
        [=](int64_t t) { return t >= prefix; });
    return n("add", fmt::format("seen.{}", part.name), {{"a", of_images}, {"b", of_text}});
  }

  // [B * count]: a token's place counts the seen tokens before it.
  Value places_of(Net& n, const Part& part, Value seen) const {
    const int64_t tokens = config_.tokens();
    const std::string path = fmt::format("places.{}", part.name);
    const Value counts =
        computed(n, path + ".weight", DType::f32, {part.count, tokens}, [part, tokens] {
          std::vector<double> all;
          for (int64_t t = 0; t < part.count; ++t)
            for (int64_t i = 0; i < tokens; ++i) all.push_back(i <= part.start + t ? 1 : 0);
          return all;
        });
    const Value first = computed(n, path + ".bias", DType::f32, {part.count}, [part] {
      return std::vector<double>(static_cast<size_t>(part.count), -1);
    });
    const Value places = n("linear", path, {{"weight", counts}, {"bias", first}, {"x", seen}});
    return n.reshape(places, {n.axis("B") * part.count});
  }

  // Growth of scores by keys of a part, [B, count].
  Value hidden_of(Net& n, const Part& part, Value seen) const {
    const std::string path = fmt::format("hidden.{}", part.name);
    const Value shift = computed(n, path + ".shift", DType::f32, {1, part.count}, [part] {
      return std::vector<double>(static_cast<size_t>(part.count), kUnseen);
    });
    const Value hidden = n("modulate", path,
                           {{"offset", -kUnseen},
                            {"x", n.reshape(seen, {1, n.axis("B"), part.count})},
                            {"shift", shift}});
    return n.reshape(hidden, {n.axis("B"), part.count});
  }

  // Cosines or sines of all channels for rows of places, [rows, head_dim]; halves share angles.
  Value turns(Net& n, const std::string& path, Value places, bool sines, Value out) const {
    const int64_t width = config_.text.head_dim;
    const Value both = n("sinusoidal_embedding", path,
                         {{"size", width},
                          {"downscale_freq_shift", 0.0},
                          {"max_period", config_.text.theta},
                          {"t", places},
                          {"out", std::string(name(DType::f32))}});
    const Value half = computed(n, sines ? "turns.sines" : "turns.cosines", DType::i32, {2},
                                [sines] { return std::vector<double>(2, sines ? 0 : 1); });
    Args args = {{"x", n.reshape(both, {n.shape(both)[0], 2, width / 2})}, {"rows", half}};
    if (out) args.emplace_back("out", n.reshape(out, {n.shape(both)[0], 2, width / 2}));
    return n.reshape(n("select_rows", path + (sines ? ".sin" : ".cos"), args), n.shape(both));
  }

  struct Places {
    Value cos, sin, mask;
  };
  // Those of the prefix. Writes the suffix's tables and mask too.
  Places places(Net& n) const {
    const Pi0Config& c = config_;
    const Value cameras = n.input("pixel_attention_mask", DType::f32, {n.axis("B"), c.cameras});
    const Value words = n.input("prompt_mask", DType::f32, {n.axis("B"), c.text_tokens});
    const Value seen = seen_tokens(n, all_tokens(), cameras, words);
    const Value of_suffix = places_of(n, suffix_tokens(), seen);
    turns(n, "suffix.places", of_suffix, false, place(n, "cos"));
    turns(n, "suffix.places", of_suffix, true, place(n, "sin"));
    mask_of_suffix(n, hidden_of(n, all_tokens(), seen));
    const Value of_prefix = places_of(n, prefix_tokens(), seen);
    const Value hidden =
        hidden_of(n, prefix_tokens(), seen_tokens(n, prefix_tokens(), cameras, words));
    return {turns(n, "prefix.places", of_prefix, false, {}),
            turns(n, "prefix.places", of_prefix, true, {}),
            n.reshape(hidden, {n.axis("B"), 1, c.prefix()})};
  }

  // The state does not see the actions behind it.
  void mask_of_suffix(Net& n, Value hidden) const {
    const Pi0Config& c = config_;
    const Expr batch = n.axis("B");
    const int64_t tokens = c.tokens(), suffix = c.suffix(), state = c.prefix();
    const Value same = n.empty(DType::f32, {batch, suffix, 1, tokens});
    n("resize2d", "suffix.mask.rows",
      {{"mode", "nearest"}, {"x", n.reshape(hidden, {batch, 1, 1, tokens})}, {"out", same}});
    const Value blind = computed(n, "suffix.mask.state", DType::f32, {1, suffix * tokens}, [=] {
      std::vector<double> all(static_cast<size_t>(suffix * tokens));
      for (int64_t t = state + 1; t < tokens; ++t) all[static_cast<size_t>(t)] = kUnseen;
      return all;
    });
    n("modulate", "suffix.mask",
      {{"x", n.reshape(same, {1, batch, suffix * tokens})},
       {"shift", blind},
       {"out", n.reshape(suffix_mask(n), {1, batch, suffix * tokens})}});
  }

  static Args gemma_args(const GemmaSizes& g) {
    return {{"num_heads", g.heads},       {"num_kv_heads", g.kv_heads},
            {"head_dim", g.head_dim},     {"scale", 1 / std::sqrt(static_cast<double>(g.head_dim))},
            {"intermediate_size", g.mlp}, {"eps", g.eps}};
  }

  void begin(Net& n) const {
    const Pi0Config& c = config_;
    const Places at = places(n);
    Value x = prefix(n);
    for (int64_t i = 0; i < c.text.layers; ++i) {
      n.tap(fmt::format("prefix_hidden.{}", i), {x});
      Args args = gemma_args(c.text);
      for (const Arg& more : Args{{"x", x},
                                  {"cos", at.cos},
                                  {"sin", at.sin},
                                  {"mask", at.mask},
                                  {"keys", kept(n, "keys", i)},
                                  {"values", kept(n, "values", i)}})
        args.push_back(more);
      x = n("prefix_decoder_layer", fmt::format("{}language_model.model.layers.{}", kPaligemma, i),
            args)["out"];
    }
    n("linear", "state_proj",
      {{"out_features", c.expert.hidden},
       {"x", n.input("state", DType::f32, {n.axis("B"), c.state})},
       {"out", rows_of(n, state_row(n))}},
      {"bias"});
    n("scaled_add", "noise",
      {{"scale", c.sampler.noise},
       {"y", rows_of(n, n.input("noise", DType::f32, n.shape(latent(n))))},
       {"out", rows_of(n, latent(n))}});
  }

  // One half of action_time_mlp_in, whose columns belong to actions and then to the time.
  Value half_product(Net& n, const std::string& half, Value x, int64_t start, bool bias) const {
    const int64_t width = config_.expert.hidden;
    WeightSpec spec;
    spec.name = "action_time_mlp_in." + half;
    spec.parts = {{"action_time_mlp_in.weight"}};
    spec.dtype = n.limits().weights();
    spec.shape = {width, width};
    spec.view = PartView{{width, 2 * width}, 1, start, width, {0, 1}};
    return n("linear", bias ? "action_time_mlp_in" : "action_time_mlp_in." + half,
             {{"weight", n.weight(std::move(spec))}, {"x", x}},
             bias ? std::vector<std::string>{"bias"} : std::vector<std::string>{});
  }

  // The state's token, then those of the actions under the time.
  Value suffix(Net& n) const {
    const Pi0Config& c = config_;
    const Expr batch = n.axis("B");
    const int64_t width = c.expert.hidden;
    const Value actions = product(n, "action_in_proj", rows_of(n, lowered_latent(n)), width);
    constexpr double kTurn = 6.283185307179586;
    const Value time = n("sinusoidal_embedding", "time",
                         {{"size", width},
                          {"scale", kTurn / c.fastest},
                          {"max_period", c.slowest / c.fastest},
                          {"t", n.input("time", DType::f32, {batch})},
                          {"out", std::string(name(n.limits().dtype))}});
    const Value of_actions = half_product(n, "actions", actions, 0, true);
    const Value of_time = half_product(n, "time", time, width, false);
    Value x = n("modulate", "action_time",
                {{"x", n.reshape(of_actions, {batch, c.chunk, width})}, {"shift", of_time}});
    x = n("activation", "action_time.act", {{"kind", "silu"}, {"x", rows_of(n, x)}});
    x = product(n, "action_time_mlp_out", x, width);
    return n("prepend_rows", "suffix",
             {{"prefix_rows", 1},
              {"before", state_row(n)},
              {"x", n.reshape(x, {batch, c.chunk, width})}});
  }

  Value lowered_latent(Net& n) const {
    const Value all = rows_of(n, latent(n));
    const Value scaled = n.zeros(n.limits().dtype, n.shape(all));
    n("linear_combination", "sampler.input",
      {{"num_terms", 1},
       {"coefficients", n.input("input_coefficients", DType::f32, {2})},
       {"x", std::vector<Value>{all}},
       {"out", scaled}});
    return scaled;
  }

  void step(Net& n) const {
    const Pi0Config& c = config_;
    Value x = suffix(n);
    for (int64_t i = 0; i < c.expert.layers; ++i) {
      Args args = gemma_args(c.expert);
      for (const Arg& more : Args{{"past_tokens", c.prefix()},
                                  {"x", x},
                                  {"cos", place(n, "cos")},
                                  {"sin", place(n, "sin")},
                                  {"mask", suffix_mask(n)},
                                  {"past_keys", kept(n, "keys", i)},
                                  {"past_values", kept(n, "values", i)}})
        args.push_back(more);
      x = n("prefix_decoder_layer", fmt::format("{}layers.{}", kExpert, i), args)["out"];
      n.tap(fmt::format("hidden.{}", i), {x});
    }
    const Value actions =
        n("prepend_rows", "actions", {{"prefix_rows", 0}, {"x", n.slice(x, 1, 1, c.chunk)}});
    const Value normed = n("rms_norm", std::string(kExpert) + "norm",
                           {{"eps", c.expert.eps}, {"x", rows_of(n, actions)}});
    const Value velocity = product(n, "action_out_proj", normed, c.actions);
    n("linear_combination", "sampler.step",
      {{"num_terms", 1},
       {"coefficients", n.input("coefficients", DType::f32, {2})},
       {"x", std::vector<Value>{velocity}},
       {"out", rows_of(n, latent(n))}});
    n.tap("latents", {latent(n)});
    n.output("actions", latent(n));
  }

  Pi0Config config_;
};

std::unique_ptr<Model> make_pi0(const Config& config) { return std::make_unique<Pi0>(config); }

FK_MODEL(pi0, make_pi0, {"PI0ForConditionalGeneration"}, {"pi0"},
         {"time_sampling_beta_alpha", "time_sampling_beta_beta", "time_sampling_scale",
          "time_sampling_offset", "loss_reduction", "is_causal", "max_position_embeddings",
          "image_token_id", "image_token_index", "num_image_tokens"});

}  // namespace
}  // namespace fk
