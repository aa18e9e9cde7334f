// SPDX-License-Identifier: Apache-2.0
// A scene of Gaussians (3D Gaussian splatting), which are the weights. A request is a camera, and
// the answer its image. Checkpoints have gsplat's names: logarithms of scales, logits of opacities,
// and in `sh` the coefficients of all orders.
#include <cmath>

#include "baselines/models/parts/sizes.hpp"
#include "core/engines/feedforward/engine.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;

struct SplatConfig {
  int64_t gaussians = 0, width = 0, height = 0, tile = 0, degree = 0;
  int64_t intersections = 0;  // of one image, which fit
  double eps2d = 0, near_plane = 0, far_plane = 0;
};

SplatConfig read_splats(const Config& config) {
  SplatConfig c;
  c.gaussians = bounded(config, "num_gaussians", config.integer("num_gaussians"), kSizeMax);
  c.width = read_count(config, "width");
  c.height = read_count(config, "height");
  c.tile = bounded(config, "tile_size", config.integer("tile_size", 16), 1 << 10);
  c.degree = config.integer("sh_degree", 3);
  if (c.degree < 0 || c.degree > 3) config.fail_at("sh_degree", "it must be 0 to 3");
  c.intersections = read_size(config, "max_intersections");
  c.eps2d = config.number("eps2d", 0.3);
  c.near_plane = config.number("near_plane", 0.01);
  c.far_plane = config.number("far_plane", 1e10);
  return c;
}

class GaussianSplatting : public Model {
 public:
  explicit GaussianSplatting(const Config& config) : config_(read_splats(config)) {}

  // Random cameras look at the scene from outside, with a view of about 60 degrees.
  std::unique_ptr<Engine> engine() const override {
    const auto width = static_cast<float>(config_.width),
               height = static_cast<float>(config_.height);
    RequestTensor view{"viewmat", {4, 4}}, lens{"K", {3, 3}};
    view.mean = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 4, 0, 0, 0, 1};
    view.stddev = 0.05;
    lens.mean = {0.9F * width, 0, width / 2, 0, 0.9F * width, height / 2, 0, 0, 1};
    lens.stddev = 0;
    return feedforward_engine(
        {.phase = "render",
         .outputs = {"image", "alpha"},
         .inputs = {view, lens},
         .counts = {{"intersections", config_.intersections, "max_intersections"}}});
  }

  void forward(Net& n, const std::string&) const override {
    const SplatConfig& c = config_;
    const int64_t terms = (c.degree + 1) * (c.degree + 1);
    const Expr batch = n.axis("B");
    const auto splats = [&](const std::string& part, Ints shape, double mean, double stddev,
                            double (*map)(double)) {
      WeightSpec spec;
      spec.name = "splats." + part;
      spec.dtype = DType::f32;
      spec.shape = std::move(shape);
      spec.mean = mean;
      spec.stddev = stddev;
      spec.map = map;
      return n.weight(std::move(spec));
    };
    // Without a checkpoint, Gaussians are smaller the more there are.
    const double size = std::log(0.6 / std::cbrt(static_cast<double>(c.gaussians)));
    WeightSpec colors;
    colors.name = "splats.sh";
    colors.dtype = n.limits().weights();
    colors.shape = {c.gaussians, terms, 3};
    colors.stddev = 0.4;
    const Outputs out = n("gaussian_splat_render", "render",
                          {{"image_size", Ints{c.height, c.width}},
                           {"tile_size", c.tile},
                           {"capacity", c.intersections * n.limits().max_batch},
                           {"degree", c.degree},
                           {"eps2d", c.eps2d},
                           {"near_plane", c.near_plane},
                           {"far_plane", c.far_plane},
                           {"means", splats("means", {c.gaussians, 3}, 0, 0.8, nullptr)},
                           {"quats", splats("quats", {c.gaussians, 4}, 0, 1, nullptr)},
                           {"scales", splats("scales", {c.gaussians, 3}, size, 0.4,
                                             [](double v) { return std::exp(v); })},
                           {"opacities", splats("opacities", {c.gaussians}, 0, 1.5,
                                                [](double v) { return 1 / (1 + std::exp(-v)); })},
                           {"coeffs", n.weight(std::move(colors))},
                           {"viewmats", n.input("viewmat", DType::f32, {batch, 4, 4})},
                           {"Ks", n.input("K", DType::f32, {batch, 3, 3})}});
    n.output("image", out["out"]);
    n.output("alpha", out["alphas"]);
    n.output("intersections", out["n_isects"]);
  }

 private:
  SplatConfig config_;
};

std::unique_ptr<Model> make_gaussian_splatting(const Config& config) {
  return std::make_unique<GaussianSplatting>(config);
}

FK_MODEL(gaussian_splatting, make_gaussian_splatting, {"GaussianSplatting"},
         {"gaussian_splatting"});

}  // namespace
}  // namespace fk
