// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/speech/sounds.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "baselines/models/parts/description.hpp"
#include "baselines/models/parts/gelu.hpp"
#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/images.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

namespace {

constexpr int64_t kFramesMost = int64_t{1} << 18;  // of one request

}  // namespace

SoundTower read_sound_tower(const Config& description, const Config& config) {
  const Config d = description.child("sounds"), usual = part_of(d, "defaults");
  const Config c = config.or_else(Json{{"audio_config", Json::object()}})
                       .child("audio_config")
                       .or_else(usual.json());
  d.ignore("defaults");
  SoundTower t;
  t.path = d.text("tower");
  t.width = read_size(c, "d_model");
  t.layers = read_count(c, "encoder_layers");
  t.heads = read_count(c, "encoder_attention_heads");
  if (t.width % (2 * t.heads) != 0)
    c.fail_at("encoder_attention_heads", "a head has an even number of channels of d_model");
  t.mlp = read_size(c, "encoder_ffn_dim");
  t.mel = read_count(c, "num_mel_bins");
  t.out = read_size(c, "output_dim");
  t.approximate = read_gelu(c, "activation_function");
  t.chunk = 2 * read_count(c, "n_window");
  if (t.chunk / 2 > read_size(c, "max_source_positions"))
    c.fail_at("n_window", "a chunk has more rows than max_source_positions");
  const int64_t most =
      bounded(config, "max_frames", config.integer("max_frames", 30000), kFramesMost);
  t.frames = (most + t.chunk - 1) / t.chunk * t.chunk;
  t.placeholder = config.integer(d.text("token"));
  return t;
}

void add_sounds(const SoundTower& t, GenerateOptions& options) {
  options.encoders.push_back(
      {.phase = SoundTower::phase,
       .length = t.rows(),
       .tensors = {{.name = "input_features", .shape = {t.frames, t.mel}, .ragged = true},
                   {.name = "audio_feature_lengths",
                    .shape = {t.sounds(), 1},
                    .chunk = t.chunk,
                    .below = kFramesMost + 1}},
       .placeholder = t.placeholder});
}

namespace {

// Records the tower in "hear".
class Ears {
 public:
  Ears(Net& n, const SoundTower& tower)
      : n_(n),
        t_(tower),
        frames_(n.axis("S")),
        chunks_(n.axis("B")),
        rows_(n.axis("E")),
        left_(n.axis("R")) {}

  void record(int64_t kept) {
    const int64_t head = t_.width / t_.heads;
    places_ = n_.input("frame_places", DType::i32, {frames_});
    Value x = convolved();
    n_.common({{"num_heads", t_.heads},
               {"head_dim", head},
               {"scale", 1 / std::sqrt(static_cast<double>(head))},
               {"intermediate_size", t_.mlp},
               {"approximate", t_.approximate},
               {"cu_seqlens", n_.input("chunk_starts", DType::i32, {chunks_ + 1})},
               {"max_seqlen", Expr::min(rows_, t_.chunk / 2)}});
    for (int64_t i = 0; i < t_.layers; ++i) {
      tap(i, x);
      x = n_("whisper_encoder_layer", t_.path + ".layers." + std::to_string(i), {{"x", x}});
    }
    x = means_of_pairs(x);
    tap(t_.layers, x);
    x = n_("layer_norm", t_.path + ".ln_post", {{"x", x}});
    x = n_("linear", t_.path + ".proj", {{"out_features", t_.out}, {"x", x}}, {"bias"});
    n_("scatter_rows", t_.path + ".keep",
       {{"x", x},
        {"rows", n_.input("state_rows", DType::i32, {left_})},
        {"out", kept_rows(n_, "images", kept, t_.out)}});
  }

 private:
  void tap(int64_t layer, Value x) { n_.tap("audio_hidden." + std::to_string(layer), {x}); }
  DType dtype() const { return n_.limits().dtype; }

  // [E, width]: the rows of chunks behind two convolutions, with their positions. Frames of a chunk
  // see zeros beyond its ends, also between the convolutions.
  Value convolved() {
    const Value mel = n_.input("input_features", DType::f32, {frames_, t_.mel});
    // As a transpose of columns with one element, only the dtype changes.
    Value x = n_("transpose", "input_features",
                 {{"x", n_.reshape(mel, {frames_, t_.mel, int64_t{1}})},
                  {"out", std::string(name(dtype()))}});
    x = convolve("conv1", n_.reshape(x, {frames_, t_.mel}), t_.mel, 1, places_, frames_);
    x = convolve("conv2", x, t_.width, 2, n_.input("kept_places", DType::i32, {rows_}), rows_);
    // As in a decomposition: the table is whole on every rank.
    const Value positions = n_.call("embedding", t_.path + ".embed_positions",
                                    {{"num_embeddings", t_.chunk / 2},
                                     {"embedding_dim", t_.width},
                                     {"table", waves()},
                                     {"ids", n_.input("positions", DType::i64, {rows_})},
                                     {"out", n_.zeros(dtype(), {rows_, t_.width})}});
    return n_("add", t_.path + ".embed", {{"a", x}, {"b", positions}});
  }

  // gelu of `kept` places [count] of the convolution of x [S, width], whose rows lie in chunks.
  Value convolve(const std::string& name, Value x, int64_t width, int64_t stride, Value kept,
                 Expr count) {
    const std::string path = t_.path + "." + name;
    const Value grid = n_.zeros(dtype(), {chunks_ * t_.chunk, width});
    n_("scatter_rows", path + ".chunks", {{"x", x}, {"rows", places_}, {"out", grid}});
    const std::vector<int64_t> one{1, 1};
    const Value y = n_("conv2d", path,
                       {{"out_channels", t_.width},
                        {"kernel_size", std::vector<int64_t>{1, 3}},
                        {"stride", std::vector<int64_t>{1, stride}},
                        {"padding", std::vector<int64_t>{0, 1}},
                        {"dilation", one},
                        {"x", n_.reshape(grid, {chunks_, int64_t{1}, t_.chunk, width})}},
                       {"bias"});
    const Value rows =
        n_("gather_rows", path + ".rows",
           {{"x", n_.reshape(y, {chunks_ * (t_.chunk / stride), t_.width})}, {"rows", kept}});
    return n_("gelu", path + ".gelu",
              {{"x", n_.reshape(rows, {count, t_.width})}, {"approximate", "none"}});
  }

  // Sines of the positions of a chunk, and behind them cosines.
  Value waves() {
    const int64_t half = t_.width / 2, rows = t_.chunk / 2;
    return computed(
        n_, t_.path + ".embed_positions.weight", n_.limits().weights(), {rows, t_.width}, [=] {
          std::vector<double> all;
          const double step = std::log(10000.0) / static_cast<double>(half - 1);
          for (int64_t p = 0; p < rows; ++p)
            for (int64_t i = 0; i < 2 * half; ++i) {
              const double turn =
                  static_cast<double>(p) * std::exp(-step * static_cast<double>(i % half));
              all.push_back(i < half ? std::sin(turn) : std::cos(turn));
            }
          return all;
        });
  }

  Value means_of_pairs(Value x) {
    const std::string path = t_.path + ".avg_pooler";
    const Value pairs = n_("gather_rows", path + ".pairs",
                           {{"x", x}, {"rows", n_.input("pair_rows", DType::i32, {left_ * 2})}});
    const Value means =
        n_("pool2d", path,
           {{"kind", "average"},
            {"kernel_size", std::vector<int64_t>{1, 2}},
            {"stride", std::vector<int64_t>{1, 2}},
            {"padding", std::vector<int64_t>{0, 0}},
            {"x", n_.reshape(pairs, {int64_t{1}, int64_t{1}, left_ * 2, t_.width})}});
    return n_.reshape(means, {left_, t_.width});
  }

  Net& n_;
  const SoundTower& t_;
  const Expr frames_, chunks_, rows_, left_;
  Value places_;
};

}  // namespace

void record_sounds(Net& n, const SoundTower& tower, int64_t rows) { Ears(n, tower).record(rows); }

}  // namespace fk::parts
