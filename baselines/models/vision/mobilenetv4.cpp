// SPDX-License-Identifier: Apache-2.0
// MobileNetV4 without attention: a stem, stages of inverted bottlenecks, a classifier over the mean
// of the last stage. Keys are timm's arguments (parts/image.hpp).
#include "baselines/models/parts/image.hpp"
#include "core/engines/feedforward/engine.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;

class MobilenetV4 : public Model {
 public:
  explicit MobilenetV4(const Config& config)
      : net_(read_inverted_net(config, {"cn", "er", "uir"})) {}

  std::unique_ptr<Engine> engine() const override {
    const int64_t side = net_.image_size;
    return feedforward_engine({.phase = "classify",
                               .outputs = {"logits"},
                               .inputs = {{"pixel_values", {net_.colours, side, side}}}});
  }

  void forward(Net& n, const std::string&) const override {
    const Value x = inverted_net(n, net_);
    const Value pooled = n("mean_pool", "global_pool", {{"x", x}});
    n.rename({{"head.conv", "conv_head"}, {"head.bn", "norm_head"}});
    const Value wide =
        conv_norm(n, "head", n.reshape(pooled, {n.shape(x)[0], 1, 1, n.shape(x)[3]}),
                  {.channels = net_.features, .activation = net_.activation, .eps = net_.eps});
    n.output("logits", n("linear", "classifier",
                         {{"out_features", net_.classes},
                          {"x", n.reshape(wide, {n.shape(x)[0], net_.features})},
                          {"out", "f32"}},
                         {"bias"}));
  }

 private:
  InvertedNet net_;
};

std::unique_ptr<Model> make_mobilenetv4(const Config& config) {
  return std::make_unique<MobilenetV4>(config);
}

FK_MODEL(mobilenetv4, make_mobilenetv4, {"MobileNetV4ForImageClassification"}, {"mobilenetv4"},
         {"architecture"});

}  // namespace
}  // namespace fk
