// SPDX-License-Identifier: Apache-2.0
// EfficientNetV2: a stem, stages of inverted bottlenecks with gates of channels, a classifier over
// the mean of the head's convolution. Keys are timm's arguments (parts/image.hpp).
#include "baselines/models/parts/image.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace {

using namespace parts;

class EfficientnetV2 : public Model {
 public:
  explicit EfficientnetV2(const Config& config)
      : net_(read_inverted_net(config, {"cn", "er", "ir"})) {
    if (net_.activation == "gelu") config.fail_at("act_layer", "`gelu` is not supported", "silu");
  }

  std::vector<std::string> phases() const override { return {"classify"}; }

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

  void drive(Session& session) const override {
    pass(session, {.phase = "classify", .outputs = {"logits"}});
  }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    if (axis == "B") return limits.max_batch;
    fail("phase " + phase, "there is no axis `" + axis + "`", did_you_mean(axis, {"B"}));
  }
  std::vector<RequestTensor> request_tensors() const override {
    return {{"pixel_values", {net_.colours, net_.image_size, net_.image_size}}};
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
