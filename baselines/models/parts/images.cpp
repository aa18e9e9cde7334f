// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/images.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "baselines/models/parts/decoder_form.hpp"
#include "baselines/models/parts/description.hpp"
#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/base/text.hpp"

namespace fk::parts {

using Ints = std::vector<int64_t>;
using Values = std::vector<Value>;

Config words_of(const Config& config) {
  if (!config.is_object("text_config")) return config;
  const Config words = config.child("text_config");
  words.has("tie_word_embeddings");
  const Config all = words.or_else(config.json());
  if (!config.has("tie_word_embeddings")) return all;
  return all.with(Json{{"tie_word_embeddings", config.boolean("tie_word_embeddings")}});
}

namespace {

constexpr int64_t kPatchesMost = int64_t{1} << 16;  // of one request

// The side of a square with this number of places. Error for another number.
int64_t read_side(const Config& config, const std::string& key) {
  const int64_t places = read_size(config, key);
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(places))));
  if (side * side != places) config.fail_at(key, "it is not a square number");
  return side;
}

// Kinds of activations, by their names in configurations.
std::string read_activation(const Config& config, const std::string& name) {
  if (name == "gelu" || name == "quick_gelu" || name == "silu") return name;
  if (name == "gelu_pytorch_tanh") return "gelu_tanh";
  config.fail_at("hidden_act", "the activation `" + excerpt(name) + "` is not supported",
                 did_you_mean(name, {"gelu", "gelu_pytorch_tanh", "quick_gelu", "silu"}));
}

// Windows in squares, and the layers without them.
void read_windows(const Config& d, const Config& c, int64_t patch, VisionTower& t) {
  if (!d.has("window")) return;
  const std::string key = d.text("window"), whole = d.text("whole_layers");
  t.window = read_size(c, key) / t.square / patch;
  if (t.window < 1) c.fail_at(key, "a window is narrower than a square of patches");
  t.whole = c.integers(whole);
  for (const int64_t layer : t.whole)
    if (layer < 0 || layer >= t.layers)
      c.fail_at(whole, "there is no layer " + std::to_string(layer));
}

void read_rope_of_tower(const Config& config) {
  if (!config.has("rope_parameters")) return;
  const Config rope = config.child("rope_parameters");
  need_number(rope, "rope_theta", VisionTower::theta);
  need_text(rope, "rope_type", "axial");
}

}  // namespace

VisionTower read_vision_tower(const Config& description, const Config& config) {
  const Config d = description.child("vision"), names = part_of(d, "names");
  const Config usual = part_of(d, "defaults");
  const Config outer = config.or_else(Json{{"vision_config", Json::object()}});
  const Config c = outer.child("vision_config").or_else(usual.json());
  d.ignore("defaults");
  VisionTower t;
  t.path = names.text("tower");
  t.width = read_size(c, d.text("width"));
  t.layers = read_count(c, "depth");
  t.heads = read_count(c, "num_heads");
  if (t.width % (4 * t.heads) != 0)
    c.fail_at("num_heads", "a head has a multiple of 4 channels: rows and columns turn pairs");
  const double mlp = d.has("mlp") ? static_cast<double>(read_size(c, d.text("mlp")))
                                  : c.number("mlp_ratio") * static_cast<double>(t.width);
  t.mlp = bounded(c, "mlp_ratio", static_cast<int64_t>(mlp), kSizeMax);
  t.out = read_size(c, d.text("out"));
  t.activation = read_activation(c, c.text("hidden_act"));
  t.square = bounded(c, "spatial_merge_size", c.integer("spatial_merge_size"), 16);
  const int64_t patch = bounded(c, "patch_size", c.integer("patch_size"), 1024);
  t.patch_width = bounded(c, "in_channels", c.integer("in_channels"), 64) * patch * patch *
                  bounded(c, "temporal_patch_size", c.integer("temporal_patch_size"), 64);
  const int64_t most =
      bounded(config, "max_patches", config.integer("max_patches", 16384), kPatchesMost);
  t.patches = most / (t.square * t.square) * (t.square * t.square);
  if (t.patches == 0) config.fail_at("max_patches", "it is less than the patches of one row");
  t.patch_bias = d.boolean("patch_bias", false);
  if (d.boolean("positions", false)) t.side = read_side(c, "num_position_embeddings");
  read_windows(d, c, patch, t);
  t.rms = word(d, "norm", {"layer", "rms"}) == "rms";
  t.qkv = names.texts("qkv", {"attn.qkv"});
  t.up = names.texts("up");
  t.gated = t.up.size() == 2;
  if (t.gated && t.activation != "silu")
    c.fail_at("hidden_act", "a gated MLP of the tower has `silu`");
  if (!t.gated && t.activation == "silu")
    c.fail_at("hidden_act", "an MLP of the tower without a gate has no `silu`");
  t.down = names.text("down");
  t.merger_norm = names.text("merger_norm");
  t.merger_up = names.text("merger_up");
  t.merger_down = names.text("merger_down");
  t.deep = names.text("deep", "");
  if (!t.deep.empty()) t.deep_layers = c.integers("deepstack_visual_indexes");
  for (const int64_t layer : t.deep_layers)
    if (layer < 0 || layer >= t.layers)
      c.fail_at("deepstack_visual_indexes", "there is no layer " + std::to_string(layer));
  t.placeholder = config.integer(d.text("token", "image_token_id"));
  if (d.has("frame_step")) t.frame_step = read_count(config, d.text("frame_step"));
  read_rope_of_tower(c);
  return t;
}

void add_images(const VisionTower& t, GenerateOptions& options) {
  options.encoders.push_back({.phase = VisionTower::phase,
                              .length = t.rows(),
                              .tensors = {{.name = "pixel_values",
                                           .shape = {t.patches, t.patch_width},
                                           .ragged = true,
                                           .multiple = t.square * t.square},
                                          {.name = "image_grid_thw",
                                           .shape = {t.rows(), 3},
                                           .square = t.square,
                                           .below = kPatchesMost + 1}},
                              .placeholder = t.placeholder,
                              .position_side = t.side,
                              .window = t.window,
                              .frame_step = t.frame_step});
}

Value kept_rows(Net& n, const std::string& state, int64_t rows, int64_t width) {
  const Expr slots = n.axis("N");
  return n.reshape(n.state(state, n.limits().dtype, {slots, rows, width}), {slots * rows, width});
}

namespace {

// The sums of `count` rows of a table in float32 for each of `rows` results, which are at most
// `most`.
Value row_sums(Net& n, const std::string& path, Value table, Value ids, int64_t count, Expr rows,
               int64_t most, DType dtype, Value weights = {}) {
  const Value starts = computed(n, path + ".starts", DType::i64, {most + 1}, [most, count] {
    std::vector<double> all;
    for (int64_t i = 0; i <= most; ++i) all.push_back(static_cast<double>(i * count));
    return all;
  });
  const Dims shape = n.shape(table);
  const int64_t width = shape[1].value();
  Args args{{"num_tables", 1},
            {"num_embeddings", Ints{shape[0].value()}},
            {"embedding_dim", width},
            {"tables", Values{table}},
            {"indices", Values{ids}},
            {"offsets", Values{n.slice(starts, 0, 0, rows + 1)}},
            {"out", n.empty(dtype, {rows, int64_t{1}, width})}};
  if (weights) args.emplace_back("per_sample_weights", Values{weights});
  return n.reshape(n("embedding_bag", path, args), {rows, width});
}

// Records the tower in "see".
class Tower {
 public:
  Tower(Net& n, const VisionTower& tower, int64_t kept)
      : n_(n),
        t_(tower),
        kept_(kept),
        rows_(n.axis("R")),
        patches_(rows_ * (tower.square * tower.square)) {}

  void record() {
    const int64_t head = t_.width / t_.heads;
    starts_ = n_.input("frame_starts", DType::i32, {n_.axis("B") + 1});
    if (t_.window > 0) windows_ = n_.input("window_starts", DType::i32, {n_.axis("G") + 1});
    n_.rename({{"mlp.fc1", t_.up[0]}, {"mlp.fc2", t_.down}});
    n_.common({{"eps", VisionTower::eps},
               {"num_heads", t_.heads},
               {"num_kv_heads", t_.heads},
               {"head_dim", head},
               {"rotary_dim", head},
               {"scale", 1 / std::sqrt(static_cast<double>(head))},
               {"intermediate_size", t_.mlp}});
    make_turns(head);
    Value x = embedded();
    if (t_.window > 0)
      x = n_("gather_rows", t_.path + ".windows",
             {{"x", x}, {"rows", n_.input("window_rows", DType::i32, {patches_})}});
    for (int64_t i = 0; i < t_.layers; ++i) {
      n_.tap("encoder_hidden." + std::to_string(i), {x});
      in_windows_ = t_.window > 0 && !std::ranges::count(t_.whole, i);
      x = layer(t_.path + ".blocks." + std::to_string(i), x);
      const auto deep = std::ranges::find(t_.deep_layers, i);
      if (deep == t_.deep_layers.end()) continue;
      const auto number = deep - t_.deep_layers.begin();
      merge(t_.path + "." + t_.deep + "." + std::to_string(number), x, true,
            "images.deep." + std::to_string(number));
    }
    n_.tap("encoder_hidden." + std::to_string(t_.layers), {x});
    merge(t_.path + ".merger", x, false, "images");
  }

 private:
  std::string word() const { return std::string(name(n_.limits().dtype)); }
  Value add(const std::string& path, Value a, Value b) {
    return n_("add", path + ".add", {{"a", a}, {"b", b}});
  }
  Value linear(const std::string& path, Value x, int64_t width) {
    return n_("linear", path, {{"out_features", width}, {"x", x}}, {"bias"});
  }

  Value embedded() {
    const std::string path = t_.path + ".patch_embed.proj";
    const Value pixels = n_.input("pixel_values", DType::f32, {patches_, t_.patch_width});
    // As a transpose of columns with one element, only the dtype changes.
    const Value typed =
        n_("transpose", "pixel_values",
           {{"x", n_.reshape(pixels, {patches_, t_.patch_width, int64_t{1}})}, {"out", word()}});
    WeightSpec kernel;
    kernel.name = path + ".weight";
    kernel.dtype = n_.limits().weights();
    kernel.shape = {t_.width, t_.patch_width};
    kernel.view = PartView{kernel.shape, 0, 0, t_.width, {0, 1}};  // flat: it is a window of 3 axes
    const Value x = n_("linear", path,
                       {{"weight", n_.weight(std::move(kernel))},
                        {"x", n_.reshape(typed, {patches_, t_.patch_width})}},
                       std::vector<std::string>(t_.patch_bias ? 1 : 0, "bias"));
    return t_.side > 0 ? add(path, x, positions()) : x;
  }

  Value positions() {
    WeightSpec table;
    table.name = t_.path + ".pos_embed.weight";
    table.shape = {t_.side * t_.side, t_.width};
    table.stddev = 1;
    return row_sums(n_, t_.path + ".pos_embed", n_.weight(std::move(table)),
                    n_.input("corner_rows", DType::i64, {patches_ * 4}), 4, patches_,
                    most_patches(), n_.limits().dtype,
                    n_.input("corner_weights", DType::f32, {patches_ * 4}));
  }

  // The most patches of a step with any limits, because weights are the same for all.
  int64_t most_patches() const { return encoder_rows_most(t_.patches); }

  // A quarter of a head's channels turns with the row, the next with the column, and so on again.
  void make_turns(int64_t head) {
    const int64_t sides = t_.rows() * t_.square, quarter = head / 4;
    const Value ids = n_.input("patch_rows", DType::i64, {patches_ * 2});
    const auto table = [&](const char* kind, double (*wave)(double)) {
      const std::string path = t_.path + ".rotary_pos_emb." + kind;
      const Value rows = computed(n_, path, DType::f32, {2 * sides, head}, [=] {
        std::vector<double> all(static_cast<size_t>(2 * sides * head));
        for (int64_t axis = 0; axis < 2; ++axis)
          for (int64_t p = 0; p < sides; ++p)
            for (int64_t i = 0; i < quarter; ++i) {
              const double step = std::pow(VisionTower::theta,
                                           -static_cast<double>(i) / static_cast<double>(quarter));
              const int64_t at = (axis * sides + p) * head + axis * quarter + i;
              all[static_cast<size_t>(at)] = all[static_cast<size_t>(at + head / 2)] =
                  wave(static_cast<double>(p) * step);
            }
        return all;
      });
      return row_sums(n_, path, rows, ids, 2, patches_, most_patches(), DType::f32);
    };
    cos_ = table("cos", [](double x) { return std::cos(x); });
    sin_ = table("sin", [](double x) { return std::sin(x); });
  }

  Value layer(const std::string& path, Value x) {
    x = add(path + ".attn", x, attention(path + ".attn", norm(path + ".norm1", x)));
    return add(path + ".mlp", x, mlp(path + ".mlp", norm(path + ".norm2", x)));
  }
  Value norm(const std::string& path, Value x) {
    return n_(t_.rms ? "rms_norm" : "layer_norm", path, {{"x", x}});
  }

  // One product with the rows of several below a layer.
  Value joined(const std::string& layer, const std::vector<std::string>& names, Value x,
               int64_t width) {
    WeightSpec weight, bias;
    weight.parts.emplace_back();
    bias.parts.emplace_back();
    for (const auto& name : names) {
      weight.parts[0].push_back(below(layer, name) + ".weight");
      bias.parts[0].push_back(below(layer, name) + ".bias");
    }
    const std::string path =
        below(layer, parent_of(names[0])) + (names.size() == 3 ? ".qkv" : ".gate_up");
    weight.name = path + ".weight";
    bias.name = path + ".bias";
    weight.dtype = bias.dtype = n_.limits().weights();
    weight.shape = {width, t_.width};
    bias.shape = {width};
    bias.stddev = 0.1;
    return n_(
        "linear", path,
        {{"weight", n_.weight(std::move(weight))}, {"bias", n_.weight(std::move(bias))}, {"x", x}});
  }

  Value attention(const std::string& path, Value x) {
    const int64_t head = t_.width / t_.heads;
    const Value all = t_.qkv.size() == 3 ? joined(parent_of(path), t_.qkv, x, 3 * t_.width)
                                         : linear(path + ".qkv", x, 3 * t_.width);
    const auto part = [&](int64_t which) {
      return n_.reshape(n_.slice(all, 1, which * t_.width, t_.width), {patches_, t_.heads, head});
    };
    const Value q = part(0), k = part(1);
    n_("rotary_rows", path + ".rotary", {{"q", q}, {"k", k}, {"cos", cos_}, {"sin", sin_}});
    const int64_t side = t_.window * t_.square;
    const Value starts = in_windows_ ? windows_ : starts_;
    const Expr longest = Expr::min(patches_, in_windows_ ? side * side : t_.patches);
    const Value y = n_("attention_varlen", path,
                       {{"causal", false},
                        {"q", q},
                        {"k", k},
                        {"v", part(2)},
                        {"cu_seqlens_q", starts},
                        {"cu_seqlens_k", starts},
                        {"max_query_len", longest},
                        {"max_key_len", longest}});
    return linear(path + ".proj", n_.reshape(y, {patches_, t_.width}), t_.width);
  }

  Value mlp(const std::string& path, Value x) {
    if (t_.gated) {
      const Value wide = joined(parent_of(path), t_.up, x, 2 * t_.mlp);
      const Value y = n_("silu_and_mul", path + ".act", {{"size", t_.mlp}, {"x", wide}});
      return linear(below(parent_of(path), t_.down), y, t_.width);
    }
    if (t_.activation != "quick_gelu")
      return n_("gelu_mlp", path,
                {{"x", x}, {"approximate", t_.activation == "gelu" ? "none" : "tanh"}},
                {"fc1_bias", "fc2_bias"});
    const Value wide = linear(path + ".fc1", x, t_.mlp);
    const Value activated = n_("activation", path + ".act", {{"kind", t_.activation}, {"x", wide}});
    return linear(path + ".fc2", activated, t_.width);
  }

  // The patches of a square side by side become one row, which the state keeps for the prefill.
  void merge(const std::string& path, Value x, bool norm_of_squares, const std::string& state) {
    const int64_t wide = t_.width * t_.square * t_.square;
    const std::string at = path.ends_with(".merger") ? t_.merger_norm : "norm";
    if (norm_of_squares) x = n_.reshape(x, {rows_, wide});
    x = n_.reshape(norm(path + "." + at, x), {rows_, wide});
    x = linear(path + "." + t_.merger_up, x, wide);
    x = n_("gelu", path + ".act", {{"x", x}, {"approximate", "none"}});
    x = linear(path + "." + t_.merger_down, x, t_.out);
    n_("scatter_rows", path + ".keep",
       {{"x", x},
        {"rows", n_.input("state_rows", DType::i32, {rows_})},
        {"out", kept_rows(n_, state, kept_, t_.out)}});
  }

  Net& n_;
  const VisionTower& t_;
  const int64_t kept_;
  const Expr rows_, patches_;
  bool in_windows_ = false;  // the layer's attention
  Value starts_, windows_, cos_, sin_;
};

}  // namespace

void record_tower(Net& n, const VisionTower& tower, int64_t rows) {
  Tower(n, tower, rows).record();
}

SeenImages::SeenImages(Net& n, const VisionTower& tower, int64_t rows)
    : n_(n), kept_(rows), width_(tower.out) {
  const Expr places = n.axis("M");
  rows_ = n.input("source_rows", DType::i32, {places});
  tokens_ = n.input("source_tokens", DType::i32, {places});
}

Value SeenImages::rows_of(const std::string& state) {
  return n_("gather_rows", state + ".rows",
            {{"x", kept_rows(n_, state, kept_, width_)}, {"rows", rows_}});
}

Value SeenImages::replace(Value x) {
  // Rows of images would be summed over the ranks like shares of an embedding.
  if (n_.parallel().tp > 1)
    x = n_("all_reduce", "images.all_reduce", {{"comm", n_.parallel().ranks()}, {"x", x}});
  n_("scatter_rows", "images.places", {{"x", rows_of("images")}, {"rows", tokens_}, {"out", x}});
  return x;
}

void SeenImages::add_deep(int64_t number, Value x) {
  const std::string state = "images.deep." + std::to_string(number);
  const Value have = n_("gather_rows", state + ".tokens", {{"x", x}, {"rows", tokens_}});
  const Value sum = n_("add", state + ".add", {{"a", have}, {"b", rows_of(state)}});
  n_("scatter_rows", state + ".places", {{"x", sum}, {"rows", tokens_}, {"out", x}});
}

AxisTables axis_tables(Net& n, const DecoderForm& form, Expr tokens, int64_t positions) {
  const Rope& rope = form.base.rope;
  const int64_t width = rope.rotary_dim, half = width / 2;
  // Weights are the same for each max_batch, so the usual ones get the same table.
  constexpr int64_t kUsual = 8192;
  const int64_t most = std::max({kUsual, generate_axis_limit("prefill", "T", n.limits()),
                                 generate_axis_limit("decode", "B", n.limits())});
  const Value ids = n.input("axis_rows", DType::i64, {tokens * 3});
  const auto table = [&](const char* kind, int64_t first) {
    const std::string path = form.base.names.rotary + "." + kind;
    const Value rows = computed(n, path, DType::f32, {3 * positions, width}, [=] {
      const std::vector<double> turns = rope_table(rope, positions);
      std::vector<double> all(static_cast<size_t>(3 * positions * width));
      for (int64_t p = 0; p < positions; ++p)
        for (int64_t i = 0; i < half; ++i) {
          const int64_t at = (axis_of(rope, i) * positions + p) * width + i;
          all[static_cast<size_t>(at)] = all[static_cast<size_t>(at + half)] =
              turns[static_cast<size_t>(p * width + first + i)];
        }
      return all;
    });
    return row_sums(n, path, rows, ids, 3, tokens, most, DType::f32);
  };
  return {table("cos", 0), table("sin", half)};
}

}  // namespace fk::parts
