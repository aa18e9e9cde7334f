// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/decoder_form.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "baselines/models/parts/description.hpp"
#include "baselines/models/parts/diffusion.hpp"
#include "baselines/models/parts/latents.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"

namespace fk::parts {

namespace {

class Reader {
 public:
  Reader(const Config& description, const Config& config)
      : config_(config), d_(resolved(description, config)) {}

  DecoderForm read(const Config& whole) {
    read_sizes();
    read_norms();
    read_attention();
    read_windows();
    read_ropes();
    read_mlp();
    read_mixture();
    read_scales();
    read_names();
    read_diffusion(d_, config_, f_);
    if (d_.has("vision")) f_.vision = read_vision_tower(d_, whole);
    if (d_.has("sounds")) f_.sounds = read_sound_tower(d_, whole);
    need_only(d_, config_);
    d_.refuse_unread(d_, {});
    return std::move(f_);
  }

 private:
  Config part(const char* key) const { return part_of(d_, key); }
  int64_t size_in(const Config& sizes, const char* name, const char* usual, int64_t most) const {
    return read_described(sizes, name, usual, config_, most);
  }
  int64_t size(const char* name, const char* usual, int64_t most) const {
    return size_in(part("sizes"), name, usual, most);
  }
  bool is_given(const char* name, const char* usual) const {
    const Config sizes = part("sizes");
    return sizes.is_number(name) || config_.has(sizes.text(name, usual));
  }

  void read_sizes() {
    DecoderConfig& b = f_.base;
    b.hidden_size = size("hidden", "hidden_size", kSizeMax);
    b.layers = size("layers", "num_hidden_layers", kCountMax);
    b.vocab_size = size("vocab", "vocab_size", kSizeMax);
    b.heads = size("heads", "num_attention_heads", kCountMax);
    b.kv_heads = is_given("kv_heads", "num_key_value_heads")
                     ? size("kv_heads", "num_key_value_heads", kCountMax)
                     : b.heads;
    if (b.heads % b.kv_heads != 0)
      config_.fail(std::to_string(b.kv_heads) + " key/value heads do not divide " +
                   std::to_string(b.heads) + " heads");
    const bool own_width = is_given("head_dim", "head_dim");
    if (!own_width && b.hidden_size % b.heads != 0)
      config_.fail("its " + std::to_string(b.heads) + " heads do not divide " +
                   std::to_string(b.hidden_size) + " channels, and there is no head_dim");
    b.head_dim = own_width ? size("head_dim", "head_dim", kCountMax) : b.hidden_size / b.heads;
    b.max_position = size("positions", "max_position_embeddings", kSizeMax);
    const int64_t times = part("sizes").integer("mlp_times", 0);
    b.intermediate_size = times > 0 && !is_given("mlp", "intermediate_size")
                              ? times * b.hidden_size
                              : size("mlp", "intermediate_size", kSizeMax);
    f_.position_offset = part("sizes").integer("position_offset", 0);
    b.tied = config_.boolean("tie_word_embeddings");
    b.eos = read_eos(config_);
    b.windows.assign(static_cast<size_t>(b.layers), 0);
  }

  void read_norms() {
    const std::vector<std::string> kinds{"rms",
                                         "rms_plus_one",
                                         "rms_without_weight",
                                         "layer",
                                         "layer_plus_one",
                                         "layer_without_bias",
                                         "layer_without_weight"};
    const std::string kind = word(d_, "norm", kinds);
    f_.norm = kind.starts_with("rms") ? DecoderForm::Norm::rms : DecoderForm::Norm::layer;
    f_.plus_one = kind.ends_with("plus_one");
    f_.norm_weight = !kind.ends_with("without_weight");
    f_.norm_bias = kind == "layer" || kind == "layer_plus_one";
    f_.base.eps =
        d_.is_number("eps") ? d_.number("eps") : config_.number(d_.text("eps", "rms_norm_eps"));
    const Config norms = part("norms");
    f_.before_attention = norms.text("before_attention", "");
    f_.after_attention = norms.text("after_attention", "");
    f_.before_mlp = norms.text("before_mlp", "");
    f_.after_mlp = norms.text("after_mlp", "");
    f_.after_experts = norms.text("after_experts", f_.after_mlp);
    f_.inside_attention = norms.text("inside_attention", "");
    f_.inside_mlp = norms.text("inside_mlp", "");
    f_.norms_after_sum = norms.boolean("after_sum", false);
    f_.embedding_norm = norms.text("embedding", "");
    f_.first_layer_bare = norms.boolean("first_layer_bare", false);
    f_.bidirectional = d_.boolean("bidirectional", false);
    if (f_.bidirectional) {
      f_.vectors = read_text_vectors(config_);
      f_.base.tied = false;  // there is no head
      if (d_.boolean("positions_after_pad", false))
        f_.pad_token = read_pad_token(config_, f_.base.max_position);
    }
    f_.parallel = d_.boolean("parallel", false);
    if (f_.parallel && f_.before_attention.empty())
      d_.fail("a parallel layer begins with a norm `before_attention`");
  }

  void read_attention() {
    const std::string qk =
        word(d_, "qk_norm", {"none", "head", "head_after", "head_layer", "full"});
    f_.qk_norm = qk == "head"         ? DecoderForm::QkNorm::head
                 : qk == "head_after" ? DecoderForm::QkNorm::head_after
                 : qk == "head_layer" ? DecoderForm::QkNorm::head_layer
                 : qk == "full"       ? DecoderForm::QkNorm::full
                                      : DecoderForm::QkNorm::none;
    const Config bias = part("bias");
    f_.base.attention_bias = bias.boolean("qkv", false);
    f_.o_bias = bias.boolean("o", false);
    f_.mlp_bias = bias.boolean("mlp", false);
    f_.down_bias = bias.boolean("down", f_.mlp_bias);
    f_.base.head_bias = bias.boolean("head", false);
    f_.sinks = d_.boolean("sinks", false);
    f_.base.steady = d_.boolean("steady", false);
    f_.gate = d_.text("output_gate", "");
    if (d_.boolean("latent", false)) read_latents(d_, config_, f_);
    if (f_.base.attention_bias) f_.base.with.emplace_back("qkv_bias");
    if (f_.qk_norm == DecoderForm::QkNorm::head) f_.base.with.emplace_back("qk_norm");
    read_quantized();
  }

  void read_quantized() {
    const std::string method = word(d_, "quantized", {"none", "fp8", "mxfp4"});
    if (method == "fp8" && f_.latent.kv_rank > 0) f_.fp8 = read_fp8(config_);
    if (method == "fp8" && f_.latent.kv_rank == 0) f_.products = read_fp8_products(config_);
    f_.mxfp4 = method == "mxfp4" && Quantization::of(config_).method == method;
    if (!f_.mxfp4) return;
    for (const char* key : {"hidden_size", "intermediate_size"})
      if (config_.integer(key) % 32 != 0)
        config_.fail_at(key, "mxfp4 has one scale for 32 columns: it must be a multiple of 32");
  }

  void read_windows() {
    const Config window = part("window");
    if (!window.has("size")) return;
    DecoderConfig& b = f_.base;
    const std::string key = window.text("size");
    const bool is_on = window.boolean("when", true);
    int64_t size = config_.has(key) && is_on ? read_size(config_, key) : 0;
    if (window.boolean("both_sides", false) && size > 0) size = size / 2 + 1;
    const bool typed = window.boolean("layer_types", false);
    const int64_t every = window.integer("full_every", 0), from = window.integer("from_layer", 0);
    const int64_t before = window.integer("before_layer", b.layers);
    // One layer of each `every` has no window: the last one, or the first one.
    const int64_t shift = window.boolean("full_first", false) ? 0 : 1;
    if (typed && config_.has("layer_types")) return slide_layers(config_, size, b);
    if (window.has("patterns")) return slide_by_patterns(window.text("patterns"), size);
    for (int64_t i = 0; i < b.layers; ++i)
      if (i >= from && i < before && (every == 0 || (i + shift) % every != 0))
        b.windows[static_cast<size_t>(i)] = size;
  }

  // A list of (kinds of layers, times). [[["global", "local"], 12]] means 24 layers.
  void slide_by_patterns(const std::string& key, int64_t size) {
    std::vector<int64_t> windows;
    const auto wrong = [&](const std::string& what) { config_.fail_at(key, what); };
    const auto add = [&](const Json& kinds) {
      for (const Json& kind : kinds) {
        if (kind != "global" && kind != "local")
          wrong(excerpt(kind.dump()) + " is not a kind of layer: \"global\" or \"local\"");
        windows.push_back(kind == "local" ? size : 0);
      }
    };
    config_.has(key);
    for (const Json& item : config_.json().at(key)) {
      if (!item.is_array() || item.size() != 2 || !item[0].is_array() ||
          !item[1].is_number_integer())
        wrong("it lists (kinds of layers, times), such as [[[\"global\", \"local\"], 12]]");
      const auto layers = static_cast<int64_t>(f_.base.windows.size());
      for (int64_t i = 0; i < std::min(item[1].get<int64_t>(), layers); ++i) add(item[0]);
    }
    if (windows.size() != f_.base.windows.size())
      wrong("it has the kinds of " + std::to_string(windows.size()) + " layers, not of " +
            std::to_string(f_.base.windows.size()));
    f_.base.windows = windows;
  }

  void read_ropes() {
    const Config rope = part("rope");
    const std::string pairs =
        word(rope, "pairs", {"halves", "neighbours", "none", "sinusoidal", "alibi"});
    f_.interleaved = pairs == "neighbours";
    f_.sinusoidal = pairs == "sinusoidal";
    f_.learned_positions = pairs == "none" || f_.sinusoidal;
    DecoderConfig& b = f_.base;
    const bool scaled = part("alibi").boolean("scaled", false);
    if (pairs == "alibi")
      f_.alibi_scale = scaled ? 1 / std::sqrt(static_cast<double>(b.head_dim)) : 1;
    if (pairs == "alibi" && f_.bidirectional) d_.fail("an encoder cannot have alibi");
    const bool turns = !f_.learned_positions && pairs != "alibi";
    f_.rope_of.assign(static_cast<size_t>(b.layers), turns ? 0 : -1);
    b.rope.rotary_dim = 0;
    if (f_.sinusoidal && config_.has("pad_token_id"))
      f_.pad_token = config_.integer("pad_token_id");
    // Falcon's files with ALiBi have a rope too. It is checked and not used.
    if (pairs == "alibi" && config_.has("rope_theta")) read_rope(config_, b.head_dim);
    if (!turns) return;
    if (rope.boolean("scaled", false)) config_.child("rope_parameters");  // refuses null
    RopeKeys keys;
    keys.theta = rope.text("theta", keys.theta);
    keys.query_beta = rope.text("query_beta", "");
    keys.sections = rope.integers("sections", {});
    keys.interleaved_sections = rope.boolean("interleaved_sections", false);
    if (rope.has("channels")) {
      // The file has a width in place of a share.
      keys.share = "partial_rotary_factor";
      keys.share_default = (static_cast<double>(read_size(config_, rope.text("channels"))) + 0.5) /
                           static_cast<double>(b.head_dim);
    } else if (rope.has("share_default")) {
      keys.share = rope.text("share", "partial_rotary_factor");
      keys.share_default = rope.number("share_default");
    }
    if (rope.boolean("by_layer_type", false)) {
      keys.sliding_theta = rope.text("sliding_theta", "");
      for (const char* type : {"full_attention", "sliding_attention"}) {
        keys.layer_type = type;
        f_.ropes.push_back(read_rope(config_, b.head_dim, keys));
      }
      for (size_t i = 0; i < f_.rope_of.size(); ++i) f_.rope_of[i] = b.windows[i] > 0 ? 1 : 0;
    } else if (rope.has("thetas")) {
      read_thetas(rope.numbers("thetas"), read_rope(config_, b.head_dim, keys));
    } else {
      f_.ropes.push_back(read_rope(config_, b.head_dim, keys));
    }
    for (Rope& each : f_.ropes) each.reversed = rope.boolean("reversed", false);
    b.rope = f_.ropes.front();
    stop_rotation(rope);
  }

  // The list has a base for each layer. 0: the layer does not rotate.
  void read_thetas(const std::vector<double>& thetas, Rope rope) {
    if (thetas.size() != f_.rope_of.size())
      config_.fail("there are " + std::to_string(thetas.size()) + " bases of rotation for " +
                   std::to_string(f_.rope_of.size()) + " layers");
    for (size_t i = 0; i < thetas.size(); ++i) {
      if (thetas[i] < 0) config_.fail("a base of rotation is negative");
      rope.theta = thetas[i];
      const auto same = std::ranges::find(f_.ropes, rope.theta, &Rope::theta);
      f_.rope_of[i] = thetas[i] == 0 ? -1 : same - f_.ropes.begin();
      if (thetas[i] > 0 && same == f_.ropes.end()) f_.ropes.push_back(rope);
    }
    if (f_.ropes.empty()) f_.ropes.push_back(rope);
  }

  // Ends the rotation of the layers which the description excludes.
  void stop_rotation(const Config& rope) {
    const bool only_sliding = rope.boolean("only_sliding", false);
    const int64_t every = rope.integer("none_every", 0);
    std::vector<int64_t> list;
    if (rope.has("layers")) list = rope.integers("layers");
    if (!list.empty() && list.size() != f_.rope_of.size())
      config_.fail("a list of rotating layers has " + std::to_string(list.size()) + " of " +
                   std::to_string(f_.rope_of.size()) + " layers");
    for (size_t i = 0; i < f_.rope_of.size(); ++i) {
      const bool by_number =
          list.empty() ? every > 0 && (static_cast<int64_t>(i) + 1) % every == 0 : list[i] == 0;
      if (by_number || (only_sliding && f_.base.windows[i] == 0)) f_.rope_of[i] = -1;
    }
  }

  void read_mlp() {
    const Config mlp = part("mlp");
    f_.gated = mlp.boolean("gated", true);
    const std::string name =
        mlp.has("activation") ? mlp.text("activation") : config_.text("hidden_act");
    const std::vector<std::pair<std::string, std::string>> kinds{{"silu", "silu"},
                                                                 {"swish", "silu"},
                                                                 {"gelu", "gelu"},
                                                                 {"gelu_new", "gelu_tanh"},
                                                                 {"gelu_pytorch_tanh", "gelu_tanh"},
                                                                 {"relu", "relu"},
                                                                 {"xielu", "xielu"},
                                                                 {"relu2", "relu2"}};
    std::vector<std::string> known;
    for (const auto& [word, kind] : kinds) {
      if (word == name) f_.activation = kind;
      known.push_back(word);
    }
    if (!contains(known, name))
      config_.fail("the activation `" + excerpt(name) + "` is not supported",
                   did_you_mean(name, known));
  }

  void read_mixture() {
    const Config moe = part("moe");
    if (moe.keys().empty()) return;
    DecoderForm::Mixture& m = f_.mixture;
    m.experts = size_in(moe, "experts", "num_experts", kCountMax);
    m.top_k = size_in(moe, "chosen", "num_experts_per_tok", kCountMax);
    m.width = size_in(moe, "width", "moe_intermediate_size", kSizeMax);
    m.sigmoid = word(moe, "score", {"softmax", "sigmoid"}) == "sigmoid";
    m.renormalize = moe.boolean("renormalize", true);
    m.groups = moe.has("groups") ? size_in(moe, "groups", "", kCountMax) : 1;
    m.kept_groups = moe.has("kept_groups") ? size_in(moe, "kept_groups", "", kCountMax) : 1;
    m.scale = moe.number("scale", 1);
    if (m.experts % m.groups != 0 || m.kept_groups > m.groups ||
        m.top_k > m.experts / m.groups * m.kept_groups)
      config_.fail(std::to_string(m.top_k) + " of " + std::to_string(m.experts) +
                   " experts cannot be chosen from " + std::to_string(m.kept_groups) + " of " +
                   std::to_string(m.groups) + " groups");
    m.gate = moe.text("gate", "mlp.gate");
    m.correction = moe.text("correction", "");
    m.up = moe.texts("up", {"mlp.experts.*.gate_proj", "mlp.experts.*.up_proj"});
    m.down = moe.text("down", "mlp.experts.*.down_proj");
    m.bare = moe.boolean("bare", false);
    m.transposed = moe.boolean("transposed", false);
    m.bias = moe.boolean("bias", false);
    m.jitter = moe.number("jitter", 0);
    m.activation = word(moe, "activation", {"silu", "swiglu_oai"});
    f_.further_layers = moe.integer("further_layers", 0);
    read_shared(moe);
    choose_layers(moe);
    if (f_.activation != "silu") config_.fail("experts with another activation than silu");
  }

  void read_shared(const Config& moe) {
    if (!moe.has("shared")) return;
    const Config shared = moe.child("shared");
    DecoderForm::Mixture& m = f_.mixture;
    const int64_t times = shared.integer("times", 1);
    const std::string key = shared.text("width", "");
    const int64_t width = key.empty() ? m.width : config_.integer(key);
    m.shared_width = width * times;
    if (m.shared_width < 0 || m.shared_width > kSizeMax)
      config_.fail("shared experts have a width of " + std::to_string(m.shared_width));
    m.shared_bias = shared.boolean("bias", false);
    m.shared_gate = shared.text("gate", "");
    m.shared_up =
        shared.texts("up", {"mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj"});
    m.shared_down = shared.text("down", "mlp.shared_experts.down_proj");
  }

  // Chooses the layers with a mixture. All layers have one, except those which a rule makes dense.
  void choose_layers(const Config& moe) {
    const Config layers =
        moe.has("layers") ? moe.child("layers") : Config(Json::object(), moe.where() + ".layers");
    const int64_t every = layers.integer("every", 1), from = layers.integer("from", 0),
                  last = layers.integer("last", -1);
    const std::vector<int64_t> dense = layers.integers("dense", {});
    const std::vector<std::string> types = layers.texts("types", {});
    if (every < 1) config_.fail("experts in every " + std::to_string(every) + "th layer");
    if (!types.empty() && std::ssize(types) != f_.base.layers)
      config_.fail("a list of " + std::to_string(types.size()) + " kinds of MLP for " +
                   std::to_string(f_.base.layers) + " layers");
    for (int64_t i = 0; i < f_.base.layers; ++i) {
      bool sparse = (i + 1) % every == 0 && i >= from && (last < 0 || i <= last) &&
                    !std::ranges::count(dense, i);
      if (!types.empty()) {
        const std::string& type = types[static_cast<size_t>(i)];
        if (type != "sparse" && type != "dense")
          config_.fail("`" + excerpt(type) + "` is not a kind of MLP",
                       did_you_mean(type, {"sparse", "dense"}));
        sparse = type == "sparse";
      }
      f_.mixture.layers.push_back(sparse);
    }
  }

  void read_scales() {
    const Config scale = part("scale"), cap = part("cap");
    const auto root = std::sqrt(static_cast<double>(f_.base.hidden_size));
    if (scale.has("embedding"))
      f_.embedding_scale = scale.is_number("embedding") ? scale.number("embedding")
                           : word(scale, "embedding", {"root_of_width"}).empty() ? 1
                                                                                 : root;
    f_.residual_scale = scale.number("residual", 1);
    f_.logit_scale = scale.number("logits", 1);
    if (scale.has("logits_divisor")) f_.logit_scale = 1 / positive(scale, "logits_divisor");
    if (scale.has("residual_by_depth"))
      f_.residual_scale =
          scale.number("residual_by_depth") / std::sqrt(static_cast<double>(f_.base.layers));
    if (scale.has("logits_width"))
      f_.logit_scale = scale.number("logits_width") / static_cast<double>(f_.base.hidden_size);
    const bool latent = f_.latent.kv_rank > 0;
    const auto width =
        static_cast<double>(latent ? f_.latent.nope + f_.latent.rotary : f_.base.head_dim);
    const double usual = latent ? f_.base.rope.score_scale : 1;
    f_.attention_scale = scale.number("attention", usual / std::sqrt(width));
    if (scale.has("attention_root"))
      f_.attention_scale = 1 / std::sqrt(positive(scale, "attention_root"));
    if (cap.has("attention")) f_.attention_cap = positive(cap, "attention");
    if (cap.has("logits")) f_.logit_cap = positive(cap, "logits");
  }

  void read_names() {
    const Config n = part("names");
    DecoderNames& names = f_.base.names;
    names.layers = n.text("layers", names.layers);
    names.embedding = n.text("embedding", names.embedding);
    f_.position = n.text("position", "");
    f_.types = n.text("types", "");
    if (!f_.types.empty() && config_.has("type_vocab_size") &&
        config_.integer("type_vocab_size") != 0)
      f_.token_types = read_size(config_, "type_vocab_size");
    names.norm = n.text("norm", names.norm);
    names.head = n.text("head", names.head);
    f_.qkv = n.texts("qkv", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"});
    f_.o = n.text("o", "self_attn.o_proj");
    f_.q_norm = n.text("q_norm", "self_attn.q_norm");
    f_.k_norm = n.text("k_norm", "self_attn.k_norm");
    f_.up = n.texts("up", f_.gated ? std::vector<std::string>{"mlp.gate_proj", "mlp.up_proj"}
                                   : std::vector<std::string>{"mlp.up_proj"});
    f_.down = n.text("down", "mlp.down_proj");
    const std::string rows = word(n, "qkv_rows", {"blocks", "groups", "quarters"});
    f_.qkv_rows = rows == "groups"     ? DecoderForm::QkvRows::groups
                  : rows == "quarters" ? DecoderForm::QkvRows::quarters
                                       : DecoderForm::QkvRows::blocks;
    if (rows == "quarters" && (f_.base.heads % 4 != 0 || f_.base.kv_heads != f_.base.heads))
      config_.fail("four shards do not divide its heads");
    f_.heads = n.texts("unread", {"pooler."});
    f_.up_first = n.boolean("up_first", false);
    f_.transposed = n.boolean("transposed", false);
    f_.buffers = n.texts("buffers", {});
    if (f_.qk_norm == DecoderForm::QkNorm::head_layer && f_.qkv.size() == 1 && rows != "groups")
      n.fail_at("qkv_rows", "layer norms of heads take groups of rows, or three products");
    if (f_.qkv.size() != 1 && f_.qkv.size() != 3) n.fail_at("qkv", "it has one name or three");
    if (f_.learned_positions == f_.position.empty())
      n.fail("a model has a rope, or a table of positions with a name");
  }

  static double positive(const Config& from, const char* key) {
    const double value = from.number(key);
    if (!(value > 0)) from.fail_at(key, "it is positive");
    return value;
  }

  const Config& config_;
  const Config d_;
  DecoderForm f_;
};

}  // namespace

bool DecoderForm::is_plain() const {
  const std::vector<std::string> llama_qkv{"self_attn.q_proj", "self_attn.k_proj",
                                           "self_attn.v_proj"},
      llama_up{"mlp.gate_proj", "mlp.up_proj"};
  const bool names = qkv == llama_qkv && up == llama_up && o == "self_attn.o_proj" &&
                     down == "mlp.down_proj" && before_attention == "input_layernorm" &&
                     before_mlp == "post_attention_layernorm";
  return names && has_plain_layers() && !products.on();
}

bool DecoderForm::has_plain_layers() const {
  const bool norms = !before_attention.empty() && !before_mlp.empty();
  const bool mixed = mixture.experts > 0, has_latents = latent.kv_rank > 0;
  const Mixture& m = mixture;
  // mla_moe_decoder_layer may be in some of the layers, moe_decoder_layer must be in all.
  const bool experts = !mixed || (has_latents ? m.shared_gate.empty() && !m.shared_bias && !m.bias
                                              : m.is_simple() && m.renormalize &&
                                                    !std::ranges::count(m.layers, false));
  // The op has one eps for all norms of a layer, also for the norms of latents.
  const bool attention = has_latents ? base.eps == Latent::eps && !base.attention_bias && !sinks
                                     : mixed || (!sinks && !o_bias);
  const auto width = static_cast<double>(has_latents ? latent.nope + latent.rotary : base.head_dim);
  const double usual = (has_latents ? base.rope.score_scale : 1) / std::sqrt(width);
  const bool scales = embedding_scale == 1 && residual_scale == 1 && logit_scale == 1 &&
                      logit_cap == 0 && attention_cap == 0 && attention_scale == usual;
  const bool rotation =
      ropes.size() == 1 && (has_latents || !interleaved) && !std::ranges::count(rope_of, -1);
  const bool bare_blocks =
      gate.empty() && inside_attention.empty() && inside_mlp.empty() && base.rope.query_beta == 0;
  return norms && scales && rotation && experts && attention && bare_blocks && !mxfp4 &&
         !bidirectional && !vision && base.rope.sections.empty() && latent.index_heads == 0 &&
         embedding_norm.empty() && norm == Norm::rms && norm_weight && !plus_one &&
         after_attention.empty() && after_mlp.empty() && after_experts.empty() && !parallel &&
         (qk_norm == QkNorm::none || qk_norm == QkNorm::head) && !mlp_bias && !down_bias &&
         !norms_after_sum && gated && activation == "silu" && !transposed &&
         qkv_rows == QkvRows::blocks;
}

DecoderForm read_decoder_form(const Config& description, const Config& config) {
  // Keys of the words may stand outside of their object too. A reading there notes them.
  if (config.is_object("text_config"))
    Reader(description, config.with(config.child("text_config").json())).read(config);
  return Reader(description, words_of(config)).read(config);
}

}  // namespace fk::parts
