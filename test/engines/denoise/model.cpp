// SPDX-License-Identifier: Apache-2.0
// A model of the denoise engine whose numbers a test can follow. Both predictions are the scaled
// latent plus a share of the request's condition: a half in the first, a quarter in the second.
#include "core/exec/model.hpp"
#include "core/engines/denoise/engine.hpp"

namespace toy {

namespace {

using namespace fk;

class ToyDenoiser final : public Model {
 public:
  explicit ToyDenoiser(const Config& config)
      : width_(config.integer("width")),
        guidance_(config.number("guidance")),
        sampler_(read_sampler(config.child("scheduler"), config.integer("steps"))) {}

  std::unique_ptr<Engine> engine() const override {
    return denoise_engine({.inputs = {{"noise", {width_}},
                                      {"wanted", {width_}},
                                      {.name = "row", .shape = {1}, .below = 3}},
                           .sampler = sampler_,
                           .guidance = guidance_,
                           .outputs = {"result"},
                           .ends = true});
  }

  void forward(Net& n, const std::string& phase) const override {
    const Value latent = n.state("latent", DType::f32, {n.axis("B"), width_});
    const Value condition = n.state("condition", DType::f32, {n.axis("B"), width_});
    if (phase == "begin") {
      copy(n, "noise", 1, latent);
      condition_of(n, condition);
    } else if (phase == "step") {
      step(n, latent, condition);
    } else {
      n.output("result", n("scaled_add", "result", {{"scale", 2.0}, {"y", latent}}));
    }
  }

 private:
  // The request's numbers, plus the number of its row.
  void condition_of(Net& n, Value condition) const {
    WeightSpec table;
    table.name = "rows";
    table.shape = {3, width_};
    table.compute = [width = width_] {
      std::vector<double> all;
      for (int64_t row = 0; row < 3; ++row)
        all.insert(all.end(), static_cast<size_t>(width), static_cast<double>(row));
      return all;
    };
    const Value row = n.input("row", DType::i64, {n.axis("B"), 1});
    const Value looked_up = n("embedding", "rows",
                              {{"table", n.weight(table)}, {"ids", n.reshape(row, {n.axis("B")})}});
    n("add", "condition",
      {{"a", n.input("wanted", DType::f32, {n.axis("B"), width_})},
       {"b", looked_up},
       {"out", condition}});
  }
  void copy(Net& n, const std::string& input, double scale, Value to) const {
    const Value from = n.input(input, DType::f32, {n.axis("B"), width_});
    n("scaled_add", input, {{"scale", scale}, {"y", from}, {"out", to}});
  }
  void step(Net& n, Value latent, Value condition) const {
    const Value scaled = n.zeros(DType::f32, n.shape(latent));
    n("linear_combination", "scaled",
      {{"num_terms", 1},
       {"coefficients", n.input("input_coefficients", DType::f32, {2})},
       {"x", std::vector<Value>{latent}},
       {"out", scaled}});
    n.input("time", DType::f32, {n.axis("B")});
    std::vector<Value> predictions;
    for (const double share : {0.5, 0.25}) {
      if (guidance_ == 1 && !predictions.empty()) break;
      const Value sum = n("add", "sum", {{"a", scaled}, {"b", condition}});
      predictions.push_back(n("scaled_add", "prediction", {{"scale", share}, {"y", sum}}));
    }
    const auto count = static_cast<int64_t>(predictions.size());
    n("linear_combination", "step",
      {{"num_terms", count},
       {"coefficients", n.input("coefficients", DType::f32, {count + 1})},
       {"x", predictions},
       {"out", latent}});
  }

  int64_t width_;
  double guidance_;
  DiffusionSampler sampler_;
};

std::unique_ptr<Model> make_toy_denoiser(const Config& config) {
  return std::make_unique<ToyDenoiser>(config);
}

FK_MODEL(toy_denoiser, make_toy_denoiser, {"ToyDenoiser"}, {"toy_denoiser"});

}  // namespace

}  // namespace toy
