// SPDX-License-Identifier: Apache-2.0
// ConvNeXt V2: a stem that cuts patches, stages of blocks with a halving between them, a classifier
// over the mean of the last stage. Images stay channels last from the stem on.
#include <algorithm>

#include "baselines/models/parts/gelu.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/engines/feedforward/engine.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;

constexpr double kEps = 1e-6;  // of all norms but the last; no configuration changes it
constexpr int64_t kRatio = 4;  // hidden width of a block's MLP over its channels

struct ConvnextConfig {
  int64_t colours = 0, image_size = 0, patch_size = 0, classes = 0;
  Ints widths, depths;
  double eps = 0;  // of the last norm
  std::string approximate;
};

// The number of classes is the number of labels, as in transformers.
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

class ConvnextV2 : public Model {
 public:
  explicit ConvnextV2(const Config& config) : config_(read_convnextv2(config)) {}

  std::unique_ptr<Engine> engine() const override {
    const int64_t side = config_.image_size;
    return feedforward_engine({.phase = "classify",
                               .outputs = {"logits"},
                               .inputs = {{"pixel_values", {config_.colours, side, side}}}});
  }

  void forward(Net& n, const std::string&) const override {
    Value x = stem(n);
    n.tap("hidden.0", {x});
    for (size_t s = 0; s < config_.depths.size(); ++s) {
      const std::string path = "convnextv2.encoder.stages." + std::to_string(s);
      if (s > 0) {
        x = norm(n, path + ".downsampling_layer.0", x, kEps);
        x = patches(n, path + ".downsampling_layer.1", x, config_.widths[s], 2);
      }
      for (int64_t i = 0; i < config_.depths[s]; ++i)
        x = n("convnextv2_block", path + ".layers." + std::to_string(i),
              {{"intermediate_size", kRatio * config_.widths[s]},
               {"approximate", config_.approximate},
               {"x", x}});
      n.tap("hidden." + std::to_string(s + 1), {x});
    }
    x = n("mean_pool", "convnextv2.pooler", {{"x", x}});
    x = norm(n, "convnextv2.layernorm", x, config_.eps);
    n.output("logits", n("linear", "classifier",
                         {{"out_features", config_.classes}, {"x", x}, {"out", "f32"}}, {"bias"}));
  }

 private:
  static Value norm(Net& n, const std::string& path, Value x, double eps) {
    const Dims shape = n.shape(x);
    Expr rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
    const Value y =
        n("layer_norm", path, {{"eps", eps}, {"x", n.reshape(x, {rows, shape.back()})}});
    return n.reshape(y, shape);
  }

  // A convolution whose windows lie side by side.
  static Value patches(Net& n, const std::string& path, Value x, int64_t out, int64_t window) {
    return n("conv2d", path,
             {{"out_channels", out},
              {"kernel_size", Ints{window, window}},
              {"stride", Ints{window, window}},
              {"padding", Ints{0, 0}},
              {"dilation", Ints{1, 1}},
              {"x", x}},
             {"bias"});
  }

  // Pixels come channels first and in float32.
  Value stem(Net& n) const {
    const Expr batch = n.axis("B");
    const int64_t side = config_.image_size, colours = config_.colours;
    const Value pixels = n.input("pixel_values", DType::f32, {batch, colours, side, side});
    const Value image = n("transpose", "pixel_values",
                          {{"x", n.reshape(pixels, {batch, colours, side * side})},
                           {"out", std::string(name(n.limits().weights()))}});
    const std::string path = "convnextv2.embeddings.";
    const Value x =
        patches(n, path + "patch_embeddings", n.reshape(image, {batch, side, side, colours}),
                config_.widths[0], config_.patch_size);
    return norm(n, path + "layernorm", x, kEps);
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
