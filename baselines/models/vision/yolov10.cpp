// SPDX-License-Identifier: Apache-2.0
// YOLOv10: convolutions with norms, in blocks whose parts are joined, and a pyramid of three maps.
// Each pixel has a box as distributions of four distances. The best pixels are the detections, as
// no two pixels claim one object. Layers have the numbers of the public checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/engines/feedforward/engine.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

constexpr int64_t kStride = 8;  // of the finest map; each other one has twice the last
constexpr int64_t kMaps = 3;
constexpr int64_t kHeadLayer = 23;

struct YoloConfig {
  int64_t image_size = 0, classes = 0, bins = 0, detections = 0;
  int64_t head_channels = 0;  // of attention
  double width = 0, depth = 0, eps = 0;
  int64_t most = 0;  // channels before `width` is applied
  Ints inverted;     // layers with compact inverted blocks
  bool large = false;

  // As in the paper: multiples of 8.
  int64_t channels(int64_t base) const {
    return static_cast<int64_t>(std::ceil(static_cast<double>(std::min(base, most)) * width / 8)) *
           8;
  }
  int64_t heads(int64_t attended) const { return std::max<int64_t>(1, attended / head_channels); }
  int64_t repeats(int64_t base) const {
    return std::max<int64_t>(1, std::llround(static_cast<double>(base) * depth));
  }
  int64_t side(int64_t map) const { return image_size / (kStride << map); }
  int64_t pixels() const {
    int64_t sum = 0;
    for (int64_t map = 0; map < kMaps; ++map) sum += side(map) * side(map);
    return sum;
  }
  int64_t queries() const { return std::min(detections, pixels()); }
};

double read_factor(const Config& config, std::string_view key) {
  const double factor = config.number(key);
  if (!(factor > 0 && factor <= 16)) config.fail_at(key, "it must be above 0 and at most 16");
  return factor;
}

YoloConfig read_yolov10(const Config& config) {
  YoloConfig c;
  c.image_size = read_count(config, "imgsz");
  if (c.image_size % (kStride << (kMaps - 1)) != 0)
    config.fail_at("imgsz", fmt::format("it must be a multiple of {}, the pixels of the last map",
                                        kStride << (kMaps - 1)));
  c.classes = read_count(config, "nc");
  c.bins = read_count(config, "reg_max");
  if (c.bins < 2) config.fail_at("reg_max", "a distribution needs two distances at least");
  c.detections = read_count(config, "max_det");
  c.width = read_factor(config, "width_multiple");
  c.depth = read_factor(config, "depth_multiple");
  c.most = read_size(config, "max_channels");
  c.eps = config.number("bn_eps", 1e-3);
  c.inverted = config.integers("cib_layers", {});
  c.large = config.boolean("large_kernel", false);
  const Ints blocks = {2, 4, 6, 8, 13, 16, 19, 22};
  for (const int64_t layer : c.inverted)
    if (std::ranges::find(blocks, layer) == blocks.end())
      config.fail_at("cib_layers", fmt::format("layer {} has no blocks: they are in {}", layer,
                                               fmt::join(blocks, ", ")));
  c.head_channels =
      bounded(config, "head_channels", config.integer("head_channels", 64), kCountMax);
  const int64_t attended = c.channels(1024) / 2, heads = c.heads(attended);
  if (attended % (2 * heads) != 0)
    config.fail_at(
        "head_channels",
        fmt::format("{} heads of an even size do not divide {} channels", heads, attended));
  return c;
}

class YoloV10 : public Model {
 public:
  explicit YoloV10(const Config& config) : config_(read_yolov10(config)) {}

  std::unique_ptr<Engine> engine() const override {
    const int64_t side = config_.image_size;
    return feedforward_engine({.phase = "detect",
                               .outputs = {"logits", "pred_boxes"},
                               .inputs = {{"pixel_values", {3, side, side}}}});
  }

  // The other head is of the training. The numbers from 0 on are a part of `distances`.
  std::vector<Unread> unread() const override {
    const std::string head = fmt::format("model.model.{}.", kHeadLayer);
    return {{head + "cv2.", "the training's head"},
            {head + "cv3.", "the training's head"},
            {head + "dfl.", "the numbers 0, 1, 2, ..."}};
  }

  void forward(Net& n, const std::string&) const override {
    // A single kernel has no module of its own.
    if (!config_.large) n.rename({{"cv1.2.conv", "cv1.2"}});
    Value x = pixels(n, 3, config_.image_size, config_.image_size);
    const auto next = [&](int64_t layer, Value y) {
      n.tap(fmt::format("hidden.{}", layer), {y});
      return x = y;
    };
    next(0, conv(n, at(0), x, 64, 3, 2));
    next(1, conv(n, at(1), x, 128, 3, 2));
    next(2, stage(n, 2, x, 128, 3, true));
    next(3, conv(n, at(3), x, 256, 3, 2));
    const Value fine = next(4, stage(n, 4, x, 256, 6, true));
    next(5, halve(n, 5, x, 512));
    const Value middle = next(6, stage(n, 6, x, 512, 6, true));
    next(7, halve(n, 7, x, 1024));
    next(8, stage(n, 8, x, 1024, 3, true));
    next(9, pyramid_pool(n, x));
    const Value coarse = next(10, partial_attention(n, x));
    // Down to the finest map and back. Layers 11, 12, 14, 15, 18 and 21 have no weights.
    const Value second =
        next(13, stage(n, 13, join(n, at(12), doubled(n, at(11), x), middle), 512, 3, false));
    next(16, stage(n, 16, join(n, at(15), doubled(n, at(14), x), fine), 256, 3, false));
    const Value first = x;
    next(17, conv(n, at(17), x, 256, 3, 2));
    next(19, stage(n, 19, join(n, at(18), x, second), 512, 3, false));
    const Value centre = x;
    next(20, halve(n, 20, x, 512));
    next(22, stage(n, 22, join(n, at(21), x, coarse), 1024, 3, false));
    detect(n, {first, centre, x});
  }

 private:
  static std::string at(int64_t layer) { return fmt::format("model.model.{}", layer); }

  Value conv_to(Net& n, const std::string& path, Value x, int64_t channels, int64_t kernel = 1,
                int64_t stride = 1, bool active = true, int64_t groups = 1) const {
    return conv_norm(n, path, x,
                     {.channels = channels,
                      .kernel = kernel,
                      .stride = stride,
                      .activation = active ? "silu" : "none",
                      .eps = config_.eps,
                      .groups = groups});
  }
  Value conv(Net& n, const std::string& path, Value x, int64_t base, int64_t kernel,
             int64_t stride) const {
    return conv_to(n, path, x, config_.channels(base), kernel, stride);
  }
  Value depthwise(Net& n, const std::string& path, Value x, int64_t kernel, int64_t stride,
                  bool active) const {
    const int64_t channels = channels_of(n, x);
    return conv_to(n, path, x, channels, kernel, stride, active, channels);
  }
  static int64_t channels_of(Net& n, Value x) { return n.shape(x).back().value(); }
  static Expr rows_of(Net& n, Value x) {
    const Dims shape = n.shape(x);
    return shape[0] * shape[1] * shape[2];
  }

  // Channels of x and behind them those of y, images of one size: rows of pixels in pieces that
  // divide both.
  static Value join(Net& n, const std::string& path, Value x, Value y) {
    const Dims shape = n.shape(x);
    const int64_t left = shape[3].value(), right = channels_of(n, y), piece = std::gcd(left, right);
    const Expr rows = rows_of(n, x);
    const Value both = n("prepend_rows", path,
                         {{"prefix_rows", left / piece},
                          {"before", n.reshape(x, {rows, left / piece, piece})},
                          {"x", n.reshape(y, {rows, right / piece, piece})}});
    return n.reshape(both, {shape[0], shape[1], shape[2], left + right});
  }

  // Part i of `count` equal parts of each row of x [..., C], with the last axis of the part. A
  // copy, because narrow parts would begin at addresses that a view cannot have.
  static Value part(Net& n, const std::string& path, Value x, int64_t count, int64_t i) {
    Dims shape = n.shape(x);
    const int64_t wide = shape.back().value() / count;
    Expr rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
    const Value which = computed(n, fmt::format("model.part.{}", i), DType::i32, {1},
                                 [=] { return Numbers{static_cast<double>(i)}; });
    shape.back() = wide;
    return n.reshape(
        n("select_rows", path, {{"x", n.reshape(x, {rows, count, wide})}, {"rows", which}}), shape);
  }

  // Rows of the same width side by side.
  static Value beside(Net& n, const std::string& path, const std::vector<Value>& parts) {
    const Dims shape = n.shape(parts[0]);
    const auto count = static_cast<int64_t>(parts.size());
    const Value out = n.empty(n.dtype(parts[0]), {shape[0], shape[1] * count});
    n("concat", path,
      {{"num_parts", count}, {"size", shape[1].value()}, {"x", parts}, {"out", out}});
    return out;
  }
  // Images of the same channels side by side.
  static Value concat(Net& n, const std::string& path, const std::vector<Value>& parts) {
    if (parts.size() == 1) return parts[0];
    const Dims shape = n.shape(parts[0]);
    std::vector<Value> flat;
    for (const Value part : parts) flat.push_back(n.reshape(part, {rows_of(n, part), shape[3]}));
    return n.reshape(beside(n, path, flat),
                     {shape[0], shape[1], shape[2], shape[3] * static_cast<int64_t>(parts.size())});
  }

  static Value doubled(Net& n, const std::string& path, Value x) {
    const Dims shape = n.shape(x);
    const Value out = n.empty(n.dtype(x), {shape[0], shape[1] * 2, shape[2] * 2, shape[3]});
    n("resize2d", path, {{"mode", "nearest"}, {"x", x}, {"out", out}});
    return out;
  }

  // A product over channels, then a convolution of each channel with half of the pixels.
  Value halve(Net& n, int64_t layer, Value x, int64_t base) const {
    const Value wide = conv(n, at(layer) + ".cv1", x, base, 1, 1);
    return depthwise(n, at(layer) + ".cv2", wide, 3, 2, false);
  }

  // Blocks over one half of the channels. Both halves and every block's result are joined.
  Value stage(Net& n, int64_t layer, Value x, int64_t base, int64_t repeats, bool residual) const {
    const std::string path = at(layer);
    const int64_t out = config_.channels(base), channels = out / 2;
    const bool inverted = std::ranges::find(config_.inverted, layer) != config_.inverted.end();
    const Value both = conv_to(n, path + ".cv1", x, 2 * channels);
    Value y = part(n, path + ".split", both, 2, 1);
    std::vector<Value> results;
    for (int64_t i = 0; i < config_.repeats(repeats); ++i) {
      const std::string block = fmt::format("{}.m.{}", path, i);
      const Value z = inverted ? inverted_block(n, block, y) : bottleneck(n, block, y);
      y = residual && !inverted ? sum_images(n, block + ".sum", y, z) : z;
      results.push_back(y);
    }
    const Value all = join(n, path + ".join", both, concat(n, path + ".blocks", results));
    return conv_to(n, path + ".cv2", all, out);
  }

  Value bottleneck(Net& n, const std::string& path, Value x) const {
    const int64_t channels = channels_of(n, x);
    return conv_to(n, path + ".cv2", conv_to(n, path + ".cv1", x, channels, 3), channels, 3);
  }

  // With its sum.
  Value inverted_block(Net& n, const std::string& path, Value x) const {
    return n("compact_inverted_block", path,
             {{"middle_channels", 2 * channels_of(n, x)},
              {"middle_kernel_size", config_.large ? 7 : 3},
              {"activation", "silu"},
              {"eps", config_.eps},
              {"x", x}},
             config_.large ? std::vector<std::string>{"narrow"} : std::vector<std::string>{});
  }

  // The largest elements of ever larger windows.
  Value pyramid_pool(Net& n, Value x) const {
    const std::string path = at(9);
    const int64_t channels = channels_of(n, x);
    std::vector<Value> all = {conv_to(n, path + ".cv1", x, channels / 2)};
    for (int i = 0; i < 3; ++i)
      all.push_back(n("pool2d", fmt::format("{}.m.{}", path, i),
                      {{"kind", "max"},
                       {"kernel_size", Ints{5, 5}},
                       {"stride", Ints{1, 1}},
                       {"padding", Ints{2, 2}},
                       {"x", all.back()}}));
    return conv_to(n, path + ".cv2", concat(n, path + ".concat", all), config_.channels(1024));
  }

  // Attention and an MLP over one half of the channels.
  Value partial_attention(Net& n, Value x) const {
    const std::string path = at(10);
    const int64_t channels = channels_of(n, x), inner = channels / 2;
    const Value both = conv_to(n, path + ".cv1", x, 2 * inner);
    Value b = part(n, path + ".second", both, 2, 1);
    b = sum_images(n, path + ".attn.sum", b, attention(n, path + ".attn", b));
    const Value wide = conv_to(n, path + ".ffn.0", b, 2 * inner);
    b = sum_images(n, path + ".ffn.sum", b, conv_to(n, path + ".ffn.1", wide, inner, 1, 1, false));
    const Value a = part(n, path + ".first", both, 2, 0);
    return conv_to(n, path + ".cv2", concat(n, path + ".concat", {a, b}), channels);
  }

  // A head has as many channels of values as of queries and keys together. Each half of the values
  // has an attention of its own, with the same queries and keys.
  Value attention(Net& n, const std::string& path, Value x) const {
    const Dims shape = n.shape(x);
    const int64_t channels = shape[3].value(), heads = config_.heads(channels);
    const int64_t width = channels / heads, narrow = width / 2;
    const Expr tokens = shape[1] * shape[2], rows = shape[0] * tokens;
    const Value qkv = conv_to(n, path + ".qkv", x, 2 * channels, 1, 1, false);
    const Value by_head = n.reshape(qkv, {shape[0], tokens, heads, 2 * width});
    const auto quarter = [&](const char* name, int64_t i) {
      return part(n, path + name, by_head, 4, i);
    };
    const Value q = quarter(".q", 0), k = quarter(".k", 1);
    std::vector<Value> halves;
    for (int64_t i = 0; i < 2; ++i) {
      const Value mixed = n("biased_attention", fmt::format("{}.halves.{}", path, i),
                            {{"num_heads", heads},
                             {"num_kv_heads", heads},
                             {"head_dim", narrow},
                             {"scale", 1 / std::sqrt(static_cast<double>(narrow))},
                             {"q", q},
                             {"k", k},
                             {"v", quarter(i == 0 ? ".v.0" : ".v.1", 2 + i)}});
      halves.push_back(n.reshape(mixed, {rows * heads, narrow}));
    }
    const Value mixed = beside(n, path + ".concat", halves);
    // Places are a convolution of each channel of the values.
    const Value values = part(n, path + ".values", by_head, 2, 1);
    const Value places = depthwise(n, path + ".pe", n.reshape(values, shape), 3, 1, false);
    return conv_to(n, path + ".proj", sum_images(n, path + ".sum", n.reshape(mixed, shape), places),
                   channels, 1, 1, false);
  }

  Value product(Net& n, const std::string& path, Value x, int64_t channels) const {
    return n("conv2d", path,
             {{"out_channels", channels},
              {"kernel_size", Ints{1, 1}},
              {"stride", Ints{1, 1}},
              {"padding", Ints{0, 0}},
              {"dilation", Ints{1, 1}},
              {"x", x}},
             {"bias"});
  }

  void detect(Net& n, const std::vector<Value>& maps) const {
    const std::string path = at(kHeadLayer);
    const int64_t first = channels_of(n, maps[0]), sides = 4 * config_.bins;
    const int64_t box_channels = std::max({int64_t{16}, first / 4, sides});
    const int64_t class_channels = std::max(first, std::min<int64_t>(config_.classes, 100));
    Value classes, boxes;
    for (int64_t map = 0; map < kMaps; ++map) {
      const Value x = maps[static_cast<size_t>(map)];
      const std::string box = fmt::format("{}.one2one_cv2.{}", path, map);
      Value d = conv_to(n, box + ".0", x, box_channels, 3);
      d = product(n, box + ".2", conv_to(n, box + ".1", d, box_channels, 3), sides);
      const std::string label = fmt::format("{}.one2one_cv3.{}", path, map);
      Value c =
          conv_to(n, label + ".0.1", depthwise(n, label + ".0.0", x, 3, 1, true), class_channels);
      c = conv_to(n, label + ".1.1", depthwise(n, label + ".1.0", c, 3, 1, true), class_channels);
      c = product(n, label + ".2", c, config_.classes);
      classes = below(n, fmt::format("{}.classes.{}", path, map), classes, c);
      boxes = below(n, fmt::format("{}.boxes.{}", path, map), boxes, d);
    }
    choose(n, path, classes, boxes);
  }

  // [B, pixels, channels]: the pixels of `maps`, if there are any, and those of map x.
  static Value below(Net& n, const std::string& path, Value maps, Value x) {
    const Dims shape = n.shape(x);
    const Value rows = n.reshape(x, {shape[0], shape[1] * shape[2], shape[3]});
    if (!maps) return rows;
    return n("prepend_rows", path,
             {{"prefix_rows", n.shape(maps)[1].value()}, {"before", maps}, {"x", rows}});
  }

  // The pixels with the best class become the detections.
  void choose(Net& n, const std::string& path, Value classes, Value boxes) const {
    const int64_t pixels = config_.pixels(), queries = config_.queries(), bins = config_.bins;
    const Expr images = n.shape(classes)[0], rows = images * pixels, chosen = images * queries;
    const Value logits = n.reshape(classes, {rows, config_.classes});
    const Value best =
        n("topk_rows", path + ".best_class", {{"top_k", 1}, {"x", logits}})["values"];
    const Outputs top = n("topk_rows", path + ".best_pixels",
                          {{"top_k", queries}, {"x", n.reshape(best, {images, pixels})}});
    const auto take = [&](const char* name, Value x, const char* which) -> Value {
      return n("gather_rows", path + name, {{"x", x}, {"rows", n.reshape(top[which], {chosen})}});
    };
    const Value distances = take(".chosen_boxes", n.reshape(boxes, {rows, 4 * bins}), "rows");
    const Value shares =
        n("softmax", path + ".softmax", {{"x", n.reshape(distances, {chosen * 4, bins})}});
    const Value sizes = n("linear", path + ".expectation",
                          {{"out_features", 4},
                           {"weight", sizes_of_distances(n, path)},
                           {"x", n.reshape(shares, {chosen, 4 * bins})},
                           {"out", "f32"}});
    const Value boxes_out =
        n("scaled_add", path + ".pred_boxes",
          {{"scale", 1.0},
           {"gate_rows", 1},
           {"x", take(".centres", by_pixel(n, path + ".pixel_centres", true), "ids")},
           {"y", sizes},
           {"gate", take(".scales", by_pixel(n, path + ".pixel_sizes", false), "ids")}});
    n.output("pred_boxes", n.reshape(boxes_out, {images, queries, 4}));
    const Value scores = take(".chosen_classes", logits, "rows");
    n.output("logits",
             n.reshape(n("transpose", path + ".logits",
                         {{"x", n.reshape(scores, {images, queries * config_.classes, 1})},
                          {"out", "f32"}}),
                       {images, queries, config_.classes}));
  }

  // [4, 4 * bins]: centre, width and height, from the expected distances to left, top, right and
  // bottom.
  Value sizes_of_distances(Net& n, const std::string& path) const {
    const int64_t bins = config_.bins;
    return computed(n, path + ".distances", n.limits().weights(), {4, 4 * bins}, [=] {
      Numbers all;
      for (int64_t number = 0; number < 4; ++number)
        for (int64_t side = 0; side < 4; ++side)
          for (int64_t bin = 0; bin < bins; ++bin) {
            const double sign = number >= 2 ? 1 : side < 2 ? -0.5 : 0.5;
            all.push_back(number % 2 == side % 2 ? sign * static_cast<double>(bin) : 0);
          }
      return all;
    });
  }

  // [pixels, 4]: a pixel's centre and two zeros, or its size four times, as shares of the image.
  Value by_pixel(Net& n, const std::string& path, bool centres) const {
    return computed(n, path, DType::f32, {config_.pixels(), 4}, [c = config_, centres] {
      Numbers all;
      for (int64_t map = 0; map < kMaps; ++map)
        for (int64_t i = 0; i < c.side(map) * c.side(map); ++i) {
          const auto wide = static_cast<double>(c.side(map));
          const double x = (static_cast<double>(i % c.side(map)) + 0.5) / wide;
          const double y = (static_cast<double>(i / c.side(map)) + 0.5) / wide;
          const Numbers row = centres ? Numbers{x, y, 0, 0} : Numbers(4, 1 / wide);
          all.insert(all.end(), row.begin(), row.end());
        }
      return all;
    });
  }

  YoloConfig config_;
};

std::unique_ptr<Model> make_yolov10(const Config& config) {
  return std::make_unique<YoloV10>(config);
}

FK_MODEL(yolov10, make_yolov10, {"YOLOv10"}, {"yolov10"}, {"architecture"});

}  // namespace
}  // namespace fk
