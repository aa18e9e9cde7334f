// SPDX-License-Identifier: Apache-2.0
// DP3: a policy for robots. Points of a scene and the robot's state give a condition, once for an
// action chunk. A U-Net along the time of the actions then turns noise into actions.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/engines/denoise/engine.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;

constexpr int64_t kWindowMost = 128;  // rows and columns of a pooled window

struct Dp3Config {
  int64_t horizon = 0, actions = 0, observations = 0;  // observations: time steps of a request
  int64_t points = 0, colours = 0, state = 0;          // colours: numbers of a point
  int64_t features = 0, taps = 0, groups = 0, step_width = 0;
  Ints state_mlp, widths;
  bool encoder_norm = true, final_norm = true;
  DiffusionSampler sampler;

  int64_t of_observation() const { return features + state_mlp.back(); }
  int64_t condition() const { return observations * of_observation(); }
  // The points as an image, whose windows may have so many rows and columns.
  int64_t point_columns() const {
    int64_t columns = kWindowMost;
    while (points % columns != 0) --columns;
    return columns;
  }
};

// A line of `horizon` actions, halved between levels.
void read_unet(const Config& config, Dp3Config& c) {
  c.widths = config.integers("down_dims");
  if (c.widths.size() < 2 || c.widths.size() > 8)
    config.fail_at("down_dims", "it needs two to eight widths");
  c.groups = read_count(config, "n_groups");
  for (const int64_t width : c.widths) {
    bounded(config, "down_dims", width, kSizeMax);
    // Rows of 16-bit weights are cut at this width, on 16 bytes.
    if (width % 8 != 0) config.fail_at("down_dims", "each must be a multiple of 8");
    if (width % c.groups != 0) config.fail_at("n_groups", "it must divide each of down_dims");
  }
  c.taps = read_count(config, "kernel_size");
  if (c.taps % 2 == 0 || c.taps > 255)
    config.fail_at("kernel_size", "it must be odd and at most 255");
  c.horizon = read_count(config, "horizon");
  const int64_t halved = int64_t{1} << (c.widths.size() - 1);
  if (c.horizon % halved != 0)
    config.fail_at("horizon", fmt::format("it must be a multiple of {}", halved));
  c.step_width = read_count(config, "diffusion_step_embed_dim");
  if (c.step_width < 4) config.fail_at("diffusion_step_embed_dim", "it must be at least 4");
  need_text(config, "condition_type", "film");
  need_boolean(
      config, {"use_down_condition", "use_mid_condition", "use_up_condition", "obs_as_global_cond"},
      true);
}

Dp3Config read_dp3(const Config& config) {
  Dp3Config c;
  read_unet(config, c);
  c.actions = read_count(config, "action_dim");
  c.observations = read_count(config, "n_obs_steps");
  c.points = read_size(config, "num_points");
  if (c.points / c.point_columns() > 255)
    config.fail_at("num_points", "it needs a divisor up to 128 that leaves at most 255 rows");
  c.state = read_count(config, "agent_pos_dim");
  c.features = read_count(config, "encoder_output_dim");
  c.state_mlp = config.integers("state_mlp_size");
  if (c.state_mlp.size() != 2) config.fail_at("state_mlp_size", "it needs two widths");
  for (const int64_t width : c.state_mlp) bounded(config, "state_mlp_size", width, kCountMax);
  need_text(config, "pointnet_type", "pointnet");
  need_boolean(config, {"use_pc_color"}, false);
  const Config encoder = config.child("pointcloud_encoder_cfg");
  c.colours = read_count(encoder, "in_channels");
  if (read_count(encoder, "out_channels") != c.features)
    encoder.fail_at("out_channels", "it must be encoder_output_dim");
  c.encoder_norm = encoder.boolean("use_layernorm");
  const std::string norm = encoder.text("final_norm");
  if (norm != "layernorm" && norm != "none")
    encoder.fail_at("final_norm", "it must be `layernorm` or `none`");
  c.final_norm = norm == "layernorm";
  c.sampler =
      read_sampler(config.child("noise_scheduler"), read_count(config, "num_inference_steps"));
  return c;
}

class Dp3 : public Model {
 public:
  explicit Dp3(const Config& config) : config_(read_dp3(config)) {}

  std::unique_ptr<Engine> engine() const override {
    const Dp3Config& c = config_;
    return denoise_engine({.inputs = {{"point_cloud", {c.observations, c.points, c.colours}},
                                      {"agent_pos", {c.observations, c.state}},
                                      {"noise", {c.horizon, c.actions}}},
                           .sampler = c.sampler,
                           .outputs = {"actions"}});
  }

  void forward(Net& n, const std::string& phase) const override {
    n.adapt(line_weights);
    if (phase == "begin")
      begin(n);
    else
      step(n);
  }

  std::vector<Unread> unread() const override {
    return {{"normalizer.", "statistics of observations and actions, for whoever makes requests"},
            {"mask_generator.", "a mask of the training"},
            {"obs_encoder.n_output_channels", "a number"}};
  }

 private:
  // Weights of a convolution along a line lack the axis of rows.
  static void line_weights(WeightSpec& spec) {
    const bool line = spec.shape.size() == 4 && spec.shape[2] == 1;
    const bool point = spec.name == "model.final_conv.1.weight";
    if (line) spec.view = PartView{spec.shape, 0, 0, spec.shape[0], {0, 1, 2, 3}};
    if (point) spec.view = PartView{spec.shape, 0, 0, spec.shape[0], {0, 1}};
  }

  Value latent(Net& n) const {
    return n.state("latent", DType::f32, {n.axis("B"), config_.horizon, config_.actions});
  }
  Value condition(Net& n) const {
    return n.state("condition", n.limits().dtype, {n.axis("B"), config_.condition()});
  }
  static Value rows_of(Net& n, Value v) {
    const Dims shape = n.shape(v);
    Expr rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
    return n.reshape(v, {rows, shape.back()});
  }
  static Value relu(Net& n, const std::string& path, Value x) {
    return n("activation", path, {{"kind", "relu"}, {"x", x}});
  }
  // A product whose result has the dtype of activations, also of an input in float32.
  static Value product(Net& n, const std::string& path, Value x, int64_t width) {
    return n("linear", path,
             {{"out_features", width}, {"x", x}, {"out", std::string(name(n.limits().dtype))}},
             {"bias"});
  }

  // Rows side by side, in `out`, which it returns.
  static Value joined(Net& n, const std::string& path, const std::vector<Value>& parts, Value out) {
    Ints sizes;
    for (const Value part : parts) sizes.push_back(n.shape(part).back().value());
    n("concat_channels", path,
      {{"num_parts", static_cast<int64_t>(parts.size())},
       {"sizes", sizes},
       {"size", n.shape(out).back().value()},
       {"x", parts},
       {"out", out}});
    return out;
  }

  // The largest features of all points of an observation, projected.
  Value scene(Net& n) const {
    const Dp3Config& c = config_;
    const std::string path = "obs_encoder.extractor.";
    Value x = rows_of(
        n, n.input("point_cloud", DType::f32, {n.axis("B"), c.observations, c.points, c.colours}));
    int64_t module = 0, width = 0;
    for (const int64_t next : {64, 128, 256}) {
      width = next;
      x = product(n, fmt::format("{}mlp.{}", path, module++), x, width);
      if (c.encoder_norm) x = n("layer_norm", fmt::format("{}mlp.{}", path, module++), {{"x", x}});
      x = relu(n, fmt::format("{}mlp.{}", path, module++), x);
    }
    const int64_t columns = c.point_columns(), rows = c.points / columns;
    const Expr scenes = n.axis("B") * c.observations;
    x = n("pool2d", path + "max",
          {{"kind", "max"},
           {"kernel_size", Ints{rows, columns}},
           {"stride", Ints{1, 1}},
           {"padding", Ints{0, 0}},
           {"x", n.reshape(x, {scenes, rows, columns, width})}});
    x = product(n, path + "final_projection.0", n.reshape(x, {scenes, width}), c.features);
    if (c.final_norm) x = n("layer_norm", path + "final_projection.1", {{"x", x}});
    return x;
  }

  void begin(Net& n) const {
    const Dp3Config& c = config_;
    const Value features = scene(n);
    Value state =
        rows_of(n, n.input("agent_pos", DType::f32, {n.axis("B"), c.observations, c.state}));
    state = relu(n, "obs_encoder.state_mlp.1",
                 product(n, "obs_encoder.state_mlp.0", state, c.state_mlp[0]));
    state = product(n, "obs_encoder.state_mlp.2", state, c.state_mlp[1]);
    const Dims rows = {n.axis("B") * c.observations, c.of_observation()};
    joined(n, "obs_encoder.features", {features, state}, n.reshape(condition(n), rows));
    n.tap("condition", {condition(n)});
    n("scaled_add", "noise",
      {{"scale", c.sampler.noise},
       {"y", rows_of(n, n.input("noise", DType::f32, {n.axis("B"), c.horizon, c.actions}))},
       {"out", rows_of(n, latent(n))}});
  }

  // The embedded time beside the condition.
  Value all_conditions(Net& n) const {
    const Dp3Config& c = config_;
    const std::string path = "model.diffusion_step_encoder.";
    const DType dtype = n.limits().dtype;
    const Value time = n("sinusoidal_embedding", path + "0",
                         {{"size", c.step_width},
                          {"t", n.input("time", DType::f32, {n.axis("B")})},
                          {"out", std::string(name(dtype))}});
    Value x = product(n, path + "1", time, 4 * c.step_width);
    x = n("activation", path + "2", {{"kind", "mish"}, {"x", x}});
    x = product(n, path + "3", x, c.step_width);
    return joined(n, "model.condition", {x, condition(n)},
                  n.empty(dtype, {n.axis("B"), c.step_width + c.condition()}));
  }

  Value block(Net& n, const std::string& path, Value x, Value cond, int64_t width) const {
    std::vector<std::string> with;
    if (n.shape(x).back().value() != width) with.emplace_back("residual");
    return n("film_residual_block", path,
             {{"out_channels", width},
              {"kernel_size", config_.taps},
              {"n_groups", config_.groups},
              {"x", x},
              {"cond", cond}},
             with);
  }
  // A convolution along the line with twice the step, or the transposed one.
  static Value resized(Net& n, const std::string& op, const std::string& path, Value x,
                       int64_t taps) {
    const Dims shape = n.shape(x);
    const Value out = n(op, path,
                        {{"out_channels", shape[2].value()},
                         {"kernel_size", Ints{1, taps}},
                         {"stride", Ints{1, 2}},
                         {"padding", Ints{0, 1}},
                         {"dilation", Ints{1, 1}},
                         {"x", n.reshape(x, {shape[0], 1, shape[1], shape[2]})}},
                        {"bias"});
    return n.reshape(out, {shape[0], n.shape(out)[2], n.shape(out)[3]});
  }

  Value unet(Net& n, Value x) const {
    const Ints& widths = config_.widths;
    const Value cond = all_conditions(n);
    int64_t tapped = 0;
    const auto seen = [&](Value v) { n.tap(fmt::format("hidden.{}", tapped++), {v}); };
    std::vector<Value> skips;
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string path = fmt::format("model.down_modules.{}.", i);
      x = block(n, path + "0", x, cond, widths[i]);
      seen(x);
      skips.push_back(x);
      if (i + 1 < widths.size()) x = resized(n, "conv2d", path + "1.conv", x, 3);
    }
    x = block(n, "model.mid_modules.0", x, cond, widths.back());
    seen(x);
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      const std::string path = fmt::format("model.up_modules.{}.", i);
      const Value skip = skips[skips.size() - 1 - i];
      const Dims shape = n.shape(x);
      const Value both =
          joined(n, path + "skip", {rows_of(n, x), rows_of(n, skip)},
                 n.empty(n.dtype(x), {shape[0] * shape[1], 2 * widths[widths.size() - 1 - i]}));
      x = block(n, path + "0", n.reshape(both, {shape[0], shape[1], n.shape(both)[1]}), cond,
                widths[widths.size() - 2 - i]);
      seen(x);
      x = resized(n, "conv_transpose2d", path + "1.conv", x, 4);
    }
    constexpr int64_t kFinalGroups = 8;
    x = n("conv1d_group_norm", "model.final_conv.0",
          {{"out_channels", widths[0]},
           {"kernel_size", config_.taps},
           {"n_groups", kFinalGroups},
           {"x", x}});
    seen(x);
    return product(n, "model.final_conv.1", rows_of(n, x), config_.actions);
  }

  void step(Net& n) const {
    const Dp3Config& c = config_;
    const Value state = rows_of(n, latent(n));
    const Value scaled = n.zeros(n.limits().dtype, n.shape(state));
    n("linear_combination", "model.input",
      {{"num_terms", 1},
       {"coefficients", n.input("input_coefficients", DType::f32, {2})},
       {"x", std::vector<Value>{state}},
       {"out", scaled}});
    const Value prediction = unet(n, n.reshape(scaled, {n.axis("B"), c.horizon, c.actions}));
    std::vector<Value> terms = {prediction};
    if (c.sampler.range > 0)
      terms.push_back(n("activation", "sampler.clamp",
                        {{"kind", "clamp"}, {"alpha", c.sampler.range}, {"x", prediction}}));
    const auto count = static_cast<int64_t>(terms.size());
    n("linear_combination", "sampler.step",
      {{"num_terms", count},
       {"coefficients", n.input("coefficients", DType::f32, {count + 1})},
       {"x", terms},
       {"out", state}});
    n.tap("latents", {latent(n)});
    n.output("actions", latent(n));
  }

  Dp3Config config_;
};

std::unique_ptr<Model> make_dp3(const Config& config) { return std::make_unique<Dp3>(config); }

FK_MODEL(dp3, make_dp3, {"SimpleDP3"}, {"dp3"},
         {"n_action_steps", "use_point_crop", "crop_shape", "normal_channel"});

}  // namespace
}  // namespace fk
