// SPDX-License-Identifier: Apache-2.0
// ConvNeXt V2: a stem that cuts patches, stages of blocks with a halving between them, a classifier
// over the mean of the last stage. Images stay channels last from the stem on.
#include <algorithm>
#include <cmath>

#include "baselines/models/parts/gelu.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;

constexpr double kEps = 1e-6;  // of all norms but the last, whatever the configuration says
constexpr int64_t kWindow = 7;
constexpr int64_t kRatio = 4;  // hidden width of a block's MLP over its channels

struct ConvnextConfig {
  int64_t colours = 0, image_size = 0, patch_size = 0, classes = 0;
  Ints widths, depths;
  double eps = 0;  // of the last norm
  std::string approximate;
};

// The labels count, as in transformers.
int64_t read_classes(const Config& config) {
  if (config.is_object("id2label"))
    return bounded(config, "id2label", static_cast<int64_t>(config.child("id2label").keys().size()),
                   kSizeMax);
  return bounded(config, "num_labels", config.integer("num_labels", 2), kSizeMax);
}

ConvnextConfig read_convnextv2(const Config& config) {
  ConvnextConfig c;
  c.colours = read_count(config, "num_channels");
  c.image_size = read_count(config, "image_size");
  c.patch_size = read_count(config, "patch_size");
  c.classes = read_classes(config);
  c.widths = config.integers("hidden_sizes");
  c.depths = config.integers("depths");
  for (const int64_t width : c.widths) bounded(config, "hidden_sizes", width, kSizeMax);
  for (const int64_t depth : c.depths) bounded(config, "depths", depth, kCountMax);
  if (c.widths.empty() || c.widths.size() != c.depths.size())
    config.fail_at("depths", "it needs one number for each of hidden_sizes");
  if (config.integer("num_stages") != static_cast<int64_t>(c.depths.size()))
    config.fail_at("num_stages", "it is not the length of depths");
  const int64_t shrink = int64_t{1} << std::min<size_t>(c.depths.size() - 1, 32);
  if (c.image_size / c.patch_size < shrink)
    config.fail_at("image_size", "nothing of the image is left in the last stage");
  c.eps = config.number("layer_norm_eps");
  c.approximate = read_gelu(config, "hidden_act");
  return c;
}

// Weights by their checkpoint names.
struct ConvnextWeights {
  Builder& b;
  DType dtype;

  Value make(const std::string& name, Ints shape, double mean, double stddev) const {
    WeightSpec spec;
    spec.name = name;
    spec.dtype = dtype;
    spec.shape = std::move(shape);
    spec.mean = mean;
    spec.stddev = stddev;
    return b.weight(std::move(spec));
  }
  Value matrix(const std::string& module, int64_t rows, int64_t columns) const {
    return make(module + ".weight", {rows, columns}, 0, 0);
  }
  // Unit gain over the whole window.
  Value kernel(const std::string& module, int64_t out, int64_t in, int64_t window) const {
    const auto length = static_cast<double>(in * window * window);
    return make(module + ".weight", {out, in, window, window}, 0, 1 / std::sqrt(length));
  }
  Value gain(const std::string& module, int64_t count) const {
    return make(module + ".weight", {count}, 1, 0.2);
  }
  Value bias(const std::string& module, int64_t count) const {
    return make(module + ".bias", {count}, 0, 0.1);
  }
  // Those of a response norm have the axes of an image in checkpoints.
  Value response(const std::string& name, int64_t count) const {
    return b.reshape(make(name, {1, 1, 1, count}, 0, 0.5), {count});
  }
};

class ConvnextV2 : public Model {
 public:
  explicit ConvnextV2(const Config& config) : config_(read_convnextv2(config)) {}

  std::vector<std::string> phases() const override { return {"classify"}; }

  void forward(Builder& b, const std::string&, const Limits& limits) const override {
    const ConvnextWeights w{b, limits.weights()};
    Value x = stem(w);
    b.tap("hidden.0", {x});
    int64_t channels = config_.widths[0];
    for (size_t s = 0; s < config_.depths.size(); ++s) {
      const std::string path = "convnextv2.encoder.stages." + std::to_string(s);
      if (s > 0) x = halve(w, path + ".downsampling_layer", x, channels, config_.widths[s]);
      channels = config_.widths[s];
      for (int64_t i = 0; i < config_.depths[s]; ++i)
        x = block(w, path + ".layers." + std::to_string(i), x, channels);
      b.tap("hidden." + std::to_string(s + 1), {x});
    }
    b.output("logits", head(w, x, channels));
  }

  void drive(Session& session) const override {
    pass(session, {.phase = "classify", .outputs = {"logits"}});
  }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    if (axis == "B") return limits.max_batch;
    fail("phase " + phase, "there is no axis `" + axis + "`", did_you_mean(axis, {"B"}));
  }
  std::vector<RequestTensor> request_tensors() const override {
    return {{"pixel_values", {config_.colours, config_.image_size, config_.image_size}}};
  }

 private:
  Value norm(const ConvnextWeights& w, const std::string& module, Value x, int64_t channels,
             double eps) const {
    const Dims shape = w.b.shape(x);
    Expr rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
    const Value y = w.b.call("layer_norm", module,
                             {{"hidden_size", channels},
                              {"eps", eps},
                              {"weight", w.gain(module, channels)},
                              {"bias", w.bias(module, channels)},
                              {"x", w.b.reshape(x, {rows, channels})}});
    return w.b.reshape(y, shape);
  }

  // A convolution whose windows lie side by side.
  Value patches(const ConvnextWeights& w, const std::string& module, Value x, int64_t in,
                int64_t out, int64_t window) const {
    return w.b.call("conv2d", module,
                    {{"in_channels", in},
                     {"out_channels", out},
                     {"kernel_size", Ints{window, window}},
                     {"stride", Ints{window, window}},
                     {"padding", Ints{0, 0}},
                     {"dilation", Ints{1, 1}},
                     {"weight", w.kernel(module, out, in, window)},
                     {"bias", w.bias(module, out)},
                     {"x", x}});
  }

  // Pixels come channels first and in float32.
  Value stem(const ConvnextWeights& w) const {
    const Expr batch = w.b.axis("B");
    const int64_t side = config_.image_size, colours = config_.colours, width = config_.widths[0];
    const Value pixels = w.b.input("pixel_values", DType::f32, {batch, colours, side, side});
    const Value image = w.b.call("transpose", "pixel_values",
                                 {{"x", w.b.reshape(pixels, {batch, colours, side * side})},
                                  {"out", w.b.empty(w.dtype, {batch, side * side, colours})}});
    const std::string path = "convnextv2.embeddings.";
    const Value x =
        patches(w, path + "patch_embeddings", w.b.reshape(image, {batch, side, side, colours}),
                colours, width, config_.patch_size);
    return norm(w, path + "layernorm", x, width, kEps);
  }

  Value halve(const ConvnextWeights& w, const std::string& path, Value x, int64_t in,
              int64_t out) const {
    return patches(w, path + ".1", norm(w, path + ".0", x, in, kEps), in, out, 2);
  }

  Value block(const ConvnextWeights& w, const std::string& path, Value x, int64_t channels) const {
    const int64_t hidden = kRatio * channels;
    const std::string local = path + ".dwconv", fc1 = path + ".pwconv1", fc2 = path + ".pwconv2";
    return w.b.call("convnextv2_block", path,
                    {{"hidden_size", channels},
                     {"intermediate_size", hidden},
                     {"kernel_size", kWindow},
                     {"approximate", config_.approximate},
                     {"eps", kEps},
                     {"grn_eps", kEps},
                     {"dwconv", w.kernel(local, channels, 1, kWindow)},
                     {"dwconv_bias", w.bias(local, channels)},
                     {"norm_weight", w.gain(path + ".layernorm", channels)},
                     {"norm_bias", w.bias(path + ".layernorm", channels)},
                     {"fc1", w.matrix(fc1, hidden, channels)},
                     {"fc1_bias", w.bias(fc1, hidden)},
                     {"grn_weight", w.response(path + ".grn.weight", hidden)},
                     {"grn_bias", w.response(path + ".grn.bias", hidden)},
                     {"fc2", w.matrix(fc2, channels, hidden)},
                     {"fc2_bias", w.bias(fc2, channels)},
                     {"x", x}});
  }

  Value head(const ConvnextWeights& w, Value x, int64_t channels) const {
    const Value mean = w.b.call("mean_pool", "convnextv2.pooler", {{"size", channels}, {"x", x}});
    const Value y = norm(w, "convnextv2.layernorm", mean, channels, config_.eps);
    return w.b.call("linear", "classifier",
                    {{"in_features", channels},
                     {"out_features", config_.classes},
                     {"weight", w.matrix("classifier", config_.classes, channels)},
                     {"bias", w.bias("classifier", config_.classes)},
                     {"x", y},
                     {"out", w.b.empty(DType::f32, {w.b.shape(x)[0], config_.classes})}});
  }

  ConvnextConfig config_;
};

std::unique_ptr<Model> make_convnextv2(const Config& config) {
  return std::make_unique<ConvnextV2>(config);
}

FK_MODEL(convnextv2, make_convnextv2, {"ConvNextV2ForImageClassification"}, {"convnextv2"},
         {"drop_path_rate", "out_features", "out_indices", "stage_names"});

}  // namespace
}  // namespace fk
