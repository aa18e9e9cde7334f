// SPDX-License-Identifier: Apache-2.0
// EfficientNetV2: a stem, stages of inverted bottlenecks with gates of channels, a classifier over
// the mean of the head's convolution. Keys are timm's arguments (parts/image.hpp).
#include "baselines/models/parts/image.hpp"
#include "core/engines/feedforward/engine.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;

class EfficientnetV2 : public Model {
 public:
  explicit EfficientnetV2(const Config& config)
      : net_(read_inverted_net(config, {"cn", "er", "ir"})) {
    if (net_.activation == "gelu") config.fail_at("act_layer", "`gelu` is not supported", "silu");
  }

  std::unique_ptr<Engine> engine() const override {
    const int64_t side = net_.image_size;
    return feedforward_engine({.phase = "classify",
                               .outputs = {"logits"},
                               .inputs = {{"pixel_values", {net_.colours, side, side}}}});
  }

  void forward(Net& n, const std::string&) const override {
    Value x = inverted_net(n, net_);
    n.rename({{"head.conv", "conv_head"}, {"head.bn", "bn2"}});
    x = conv_norm(n, "head", x,
                  {.channels = net_.features, .activation = net_.activation, .eps = net_.eps});
    const Value pooled = n("mean_pool", "global_pool", {{"x", x}});
    n.output("logits",
             n("linear", "classifier",
               {{"out_features", net_.classes}, {"x", pooled}, {"out", "f32"}}, {"bias"}));
  }

 private:
  InvertedNet net_;
};

std::unique_ptr<Model> make_efficientnetv2(const Config& config) {
  return std::make_unique<EfficientnetV2>(config);
}

FK_MODEL(efficientnetv2, make_efficientnetv2, {"EfficientNetV2ForImageClassification"},
         {"efficientnetv2"}, {"architecture"});

}  // namespace
}  // namespace fk
