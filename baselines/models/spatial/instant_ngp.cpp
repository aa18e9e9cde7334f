// SPDX-License-Identifier: Apache-2.0
// Instant neural graphics primitives: a radiance field of hashed features and two small networks.
// A request is a camera, and the answer its image. The configuration has the keys of instant-ngp's
// networks, and the sizes of the scene and of the image.
#include <cmath>

#include "baselines/models/parts/sizes.hpp"
#include "core/engines/feedforward/engine.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;

struct FieldConfig {
  int64_t width = 0, height = 0, samples = 0;
  int64_t cubes = 0, cells = 0, steps = 0;
  double near_plane = 0, far_plane = 0, step = 0, longest = 0, cone = 0, threshold = 0, least = 0;
  int64_t levels = 0, features = 0, log2_rows = 0, base = 0;
  double scale = 0;
  int64_t degree = 0, hidden = 0, geometry = 0;
};

void read_networks(const Config& config, FieldConfig& c) {
  const Config encoding = config.child("encoding"), directions = config.child("dir_encoding"),
               network = config.child("network"), rgb = config.child("rgb_network");
  need_text(encoding, "otype", "HashGrid");
  c.levels = bounded(encoding, "n_levels", encoding.integer("n_levels", 16), 32);
  c.features =
      bounded(encoding, "n_features_per_level", encoding.integer("n_features_per_level", 2), 16);
  c.log2_rows =
      bounded(encoding, "log2_hashmap_size", encoding.integer("log2_hashmap_size", 19), 26);
  c.base = bounded(encoding, "base_resolution", encoding.integer("base_resolution", 16), 1 << 8);
  // As instant-ngp: the finest level has 2048 cells in a cube of the width 1.
  const double finest = 2048 * std::ldexp(1.0, static_cast<int>(c.cubes) - 1);
  const double usual = c.levels < 2 ? 1
                                    : std::exp(std::log(finest / static_cast<double>(c.base)) /
                                               static_cast<double>(c.levels - 1));
  c.scale = encoding.number("per_level_scale", usual);
  if (!(c.scale >= 1 && c.scale <= 4)) encoding.fail_at("per_level_scale", "it must be 1 to 4");
  need_text(directions, "otype", "SphericalHarmonics");
  c.degree = bounded(directions, "degree", directions.integer("degree", 4), 4);
  for (const Config* part : {&network, &rgb}) {
    const std::string type = part->text("otype", "FullyFusedMLP");
    if (type != "FullyFusedMLP" && type != "CutlassMLP")
      part->fail_at("otype", "it must be `FullyFusedMLP` or `CutlassMLP`");
    need_text(*part, "activation", "ReLU");
    need_text(*part, "output_activation", "None");
  }
  need_number(network, "n_hidden_layers", 1);
  need_number(rgb, "n_hidden_layers", 2);
  c.hidden = read_count(network, "n_neurons");
  need_number(rgb, "n_neurons", static_cast<double>(c.hidden));
  c.geometry = bounded(network, "n_output_dims", network.integer("n_output_dims", 16), kCountMax);
}

FieldConfig read_field(const Config& config) {
  FieldConfig c;
  c.width = read_count(config, "width");
  c.height = read_count(config, "height");
  c.samples = read_size(config, "max_samples");
  c.cubes = bounded(config, "num_cascades", config.integer("num_cascades", 1), 8);
  c.cells = bounded(config, "grid_size", config.integer("grid_size", 128), 1 << 8);
  c.steps = bounded(config, "max_steps", config.integer("max_steps", 1024), 1 << 16);
  c.near_plane = config.number("near_plane", 0.05);
  c.far_plane = config.number("far_plane", 1000);
  c.step = config.number("step_size", std::sqrt(3.0) / 1024);
  const double widest = std::sqrt(3.0) * std::ldexp(1.0, static_cast<int>(c.cubes) - 1) /
                        static_cast<double>(c.cells);
  c.longest = config.number("max_step", widest);
  c.cone = config.number("cone_angle", c.cubes > 1 ? 1.0 / 256 : 0);
  if (!(c.step > 0)) config.fail_at("step_size", "it must be above 0");
  if (!(c.longest >= c.step)) config.fail_at("max_step", "it must be step_size or more");
  c.threshold = config.number("density_threshold", 0.01);
  c.least = config.number("min_transmittance", 1e-4);
  read_networks(config, c);
  return c;
}

// Rows of the table of all levels.
int64_t rows_of(const FieldConfig& c) {
  int64_t all = 0;
  for (int64_t l = 0; l < c.levels; ++l) {
    const double scale =
        static_cast<double>(c.base) * std::pow(c.scale, static_cast<double>(l)) - 1;
    const auto edge = static_cast<int64_t>(std::ceil(std::min(scale, 0x1p20))) + 1;
    all += std::min(int64_t{1} << c.log2_rows, (edge * edge * edge + 7) / 8 * 8);
  }
  return all;
}

class InstantNgp : public Model {
 public:
  explicit InstantNgp(const Config& config) : config_(read_field(config)) {}

  // Random cameras look at the scene from its edge, with a view of about 60 degrees.
  std::unique_ptr<Engine> engine() const override {
    const auto width = static_cast<float>(config_.width),
               height = static_cast<float>(config_.height);
    RequestTensor view{"viewmat", {4, 4}}, lens{"K", {3, 3}};
    view.mean = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0.9F, 0, 0, 0, 1};
    view.stddev = 0.05;
    lens.mean = {0.9F * width, 0, width / 2, 0, 0.9F * width, height / 2, 0, 0, 1};
    lens.stddev = 0;
    return feedforward_engine({.phase = "render",
                               .outputs = {"image", "alpha"},
                               .inputs = {view, lens},
                               .counts = {{"samples", config_.samples, "max_samples"}}});
  }

  void forward(Net& n, const std::string&) const override {
    const FieldConfig& c = config_;
    const Expr batch = n.axis("B");
    const int64_t harmonics = c.degree * c.degree;
    WeightSpec grid, table;
    grid.name = "density_grid";
    grid.shape = {c.cubes, c.cells, c.cells, c.cells};
    // Without a checkpoint, one cell in 100 is occupied where the threshold is small.
    grid.mean = -2.3, grid.stddev = 1;
    table.name = "encoding.table";
    table.dtype = n.limits().weights();
    table.shape = {rows_of(c), c.features};
    table.stddev = 1;
    const auto matrix = [&](const std::string& name, int64_t rows, int64_t columns) {
      WeightSpec spec;
      spec.name = name + ".weight";
      spec.dtype = n.limits().weights();
      spec.shape = {rows, columns};
      return n.weight(std::move(spec));
    };
    const Outputs out = n("nerf_render", "field",
                          {{"image_size", Ints{c.height, c.width}},
                           {"capacity", c.samples * n.limits().max_batch},
                           {"near_plane", c.near_plane},
                           {"far_plane", c.far_plane},
                           {"step_size", c.step},
                           {"max_step", c.longest},
                           {"cone_angle", c.cone},
                           {"threshold", c.threshold},
                           {"max_steps", c.steps},
                           {"n_levels", c.levels},
                           {"n_features", c.features},
                           {"log2_hashmap_size", c.log2_rows},
                           {"base_resolution", c.base},
                           {"per_level_scale", c.scale},
                           {"hidden_size", c.hidden},
                           {"sample_features", c.geometry},
                           {"degree", c.degree},
                           {"min_transmittance", c.least},
                           {"density_grid", n.weight(std::move(grid))},
                           {"table", n.weight(std::move(table))},
                           {"density_in", matrix("density.0", c.hidden, c.levels * c.features)},
                           {"density_out", matrix("density.1", c.geometry, c.hidden)},
                           {"color_in", matrix("color.0", c.hidden, c.geometry + harmonics)},
                           {"color_hidden", matrix("color.1", c.hidden, c.hidden)},
                           {"color_out", matrix("color.2", 3, c.hidden)},
                           {"viewmats", n.input("viewmat", DType::f32, {batch, 4, 4})},
                           {"Ks", n.input("K", DType::f32, {batch, 3, 3})}});
    n.output("image", out["out"]);
    n.output("alpha", out["alphas"]);
    n.output("samples", out["n_samples"]);
  }

 private:
  FieldConfig config_;
};

std::unique_ptr<Model> make_instant_ngp(const Config& config) {
  return std::make_unique<InstantNgp>(config);
}

FK_MODEL(instant_ngp, make_instant_ngp, {"InstantNGP"}, {"instant_ngp"});

}  // namespace
}  // namespace fk
