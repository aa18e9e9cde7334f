// SPDX-License-Identifier: Apache-2.0
// A model of the rollout engine whose numbers a test can follow. The prediction is the mean of the
// frames which a frame sees, itself included, plus the time. A kept frame is what it was plus
// the time at which others see it. A frame has `width` numbers.
#include "core/exec/model.hpp"
#include "core/engines/rollout/engine.hpp"

namespace toy {

namespace {

using namespace fk;

class ToyWorld final : public Model {
 public:
  explicit ToyWorld(const Config& config)
      : width_(config.integer("width")),
        prompt_(config.integer("prompt")),
        frames_(config.integer("frames")),
        window_(config.integer("window")),
        seen_(config.number("seen")) {
    for (int64_t i = 0; i < config.integer("steps"); ++i)
      sampler_.steps.push_back({.time = static_cast<double>(i), .latent = 0.5, .prediction = 0.25});
  }

  std::unique_ptr<Engine> engine() const override {
    return rollout_engine(
        {.inputs = {{"first", {prompt_, width_}}, {"noise", {frames_ - prompt_, width_}}},
         .prompt_frames = prompt_,
         .frames = frames_,
         .window = window_,
         .sampler = sampler_,
         .seen_time = seen_,
         .outputs = {"latents"}});
  }

  void forward(Net& n, const std::string& phase) const override {
    const Value all = n.state("all", DType::f32, {frames_, n.axis("B"), width_});
    if (phase == "prompt") {
      place(n, all, "first", 0, prompt_);
      place(n, all, "noise", prompt_, frames_ - prompt_);
      return;
    }
    const Value latent = n.reshape(n.slice(all, 0, n.axis("E") - 1, 1), {n.axis("B"), width_});
    if (phase == "decode") {
      n.output("latents", latent);
      return;
    }
    const Value seen = kept(n, latent);
    if (phase == "step")
      n("linear_combination", "step",
        {{"num_terms", 1},
         {"coefficients", n.input("coefficients", DType::f32, {2})},
         {"x", std::vector<Value>{seen}},
         {"out", latent}});
  }

 private:
  static void place(Net& n, Value all, const std::string& input, int64_t start, int64_t count) {
    const Value x = n.input(input, DType::f32, {n.axis("B"), count, n.shape(all)[2]});
    n("prepend_rows", input,
      {{"prefix_rows", 0}, {"x", n.permute(x, {1, 0, 2})}, {"out", n.slice(all, 0, start, count)}});
  }

  // Keeps the frame plus the time in its place. Returns the mean of all frames up to this place.
  Value kept(Net& n, Value latent) const {
    const Expr batch = n.axis("B");
    const Value memory = n.state("memory", DType::f32, {window_, batch, width_});
    WeightSpec ones;
    ones.name = "ones";
    ones.shape = {width_, 1};
    ones.compute = [w = width_] { return std::vector<double>(static_cast<size_t>(w), 1); };
    const Value times = n("linear", "times",
                          {{"weight", n.weight(ones)},
                           {"x", n.reshape(n.input("time", DType::f32, {batch}), {batch, 1})}});
    n("add", "kept",
      {{"a", latent},
       {"b", times},
       {"out", n.reshape(n.slice(memory, 0, n.axis("T") - 1, 1), {batch, width_})}});
    const Value seen =
        n.permute(n.reshape(n.slice(memory, 0, 0, n.axis("T")), {n.axis("T"), batch, 1, width_}),
                  {1, 0, 2, 3});
    // Without scores, attention is a mean.
    return n.reshape(n("biased_attention", "mean",
                       {{"num_heads", 1},
                        {"num_kv_heads", 1},
                        {"head_dim", width_},
                        {"scale", 0.0},
                        {"q", n.reshape(latent, {batch, 1, 1, width_})},
                        {"k", seen},
                        {"v", seen}}),
                     {batch, width_});
  }

  int64_t width_, prompt_, frames_, window_;
  double seen_;
  DiffusionSampler sampler_;
};

std::unique_ptr<Model> make_toy_world(const Config& config) {
  return std::make_unique<ToyWorld>(config);
}

FK_MODEL(toy_world, make_toy_world, {"ToyWorld"}, {"toy_world"});

}  // namespace

}  // namespace toy
