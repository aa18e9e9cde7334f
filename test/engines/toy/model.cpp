// SPDX-License-Identifier: Apache-2.0
// A model of the toy engine: a step is a product with a matrix.
#include "core/exec/model.hpp"
#include "test/engines/toy/engine.hpp"

namespace toy {

namespace {

using namespace fk;

class ToyModel final : public Model {
 public:
  explicit ToyModel(int64_t width) : width_(width) {}

  std::unique_ptr<Engine> engine() const override { return toy_engine(width_); }

  void forward(Net& n, const std::string&) const override {
    const Value x = n.input("x", DType::f32, {n.axis("B"), width_});
    n.output("next", n("linear", "dynamics", {{"out_features", width_}, {"x", x}}));
  }

 private:
  int64_t width_;
};

std::unique_ptr<Model> make_toy(const Config& config) {
  return std::make_unique<ToyModel>(config.integer("width"));
}

FK_MODEL(toy_rollout, make_toy, {"ToyRollout"}, {"toy_rollout"});

}  // namespace

}  // namespace toy
