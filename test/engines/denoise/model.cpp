// SPDX-License-Identifier: Apache-2.0
// A model of the denoise engine whose numbers a test can follow. Both predictions are the scaled
// latent plus a share of the request's condition: a half in the first, a quarter in the second.
// With `shake`, step i first adds shake * (i + 1) times its own row of the request's tensor
// `shakes`.
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
        shake_(config.number("shake", 0)),
        sampler_(read_sampler(config.child("scheduler"), config.integer("steps"))) {
    for (size_t i = 0; i < sampler_.steps.size(); ++i)
      sampler_.steps[i].noise = shake_ * static_cast<double>(i + 1);
  }

  std::unique_ptr<Engine> engine() const override {
    DenoiseOptions options{
        .inputs = {{"noise", {width_}},
                   {"wanted", {width_}},
                   {.name = "row", .shape = {1}, .below = 3, .dtype = DType::i64}},
        .sampler = sampler_,
        .guidance = guidance_,
        .outputs = {"result"},
        .ends = true};
    if (shake_ > 0) {
      options.inputs.push_back({"shakes", {steps(), width_}});
      options.noisy = true;
      options.batch = 1;
    }
    return denoise_engine(std::move(options));
  }

  void forward(Net& n, const std::string& phase) const override {
    const Value latent = n.state("latent", DType::f32, {n.axis("B"), width_});
    const Value condition = n.state("condition", DType::f32, {n.axis("B"), width_});
    if (phase == "begin") {
      copy(n, "noise", 1, latent);
      if (shake_ > 0) shakes(n);
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
  int64_t steps() const { return static_cast<int64_t>(sampler_.steps.size()); }
  Value shakes(Net& n) const {
    return n.input("shakes", DType::f32, {n.axis("B"), steps(), width_});
  }
  void shake(Net& n, Value latent) const {
    const Value own = n("gather_rows", "own_shake",
                        {{"x", n.reshape(n.slice(shakes(n), 0, 0, 1), {steps(), width_})},
                         {"rows", n.input("step", DType::i32, {1})}});
    n("linear_combination", "shake",
      {{"num_terms", 1},
       {"coefficients", n.input("noise_coefficients", DType::f32, {2})},
       {"x", std::vector<Value>{own}},
       {"out", n.slice(latent, 0, 0, 1)}});
  }
  void step(Net& n, Value latent, Value condition) const {
    if (shake_ > 0) shake(n, latent);
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
  double guidance_, shake_;
  DiffusionSampler sampler_;
};

std::unique_ptr<Model> make_toy_denoiser(const Config& config) {
  return std::make_unique<ToyDenoiser>(config);
}

FK_MODEL(toy_denoiser, make_toy_denoiser, {"ToyDenoiser"}, {"toy_denoiser"});

}  // namespace

}  // namespace toy
