// SPDX-License-Identifier: Apache-2.0
// nerf_render: each pixel's ray, and each sample through both networks. A first pass counts.
#include "fk/ops/nerf_render.h"

#include "nerf.hpp"

namespace fk::reference {
namespace {

struct NerfRender : Base<nerf_render> {
  using Base::Base;
  struct Rows {
    double *encoded, *corner, *hidden, *input, *wide, *rgb;
    Rows(Scratch scratch, const op::init& init, const op::weights& weights)
        : encoded(scratch.take(init.n_levels * init.n_features)),
          corner(scratch.take(init.n_features)),
          hidden(scratch.take(weights.density_in->shape[0])),
          input(scratch.take(weights.color_in->shape[1])),
          wide(scratch.take(weights.density_in->shape[0])),
          rgb(scratch.take(3)) {}
  };
  static int64_t doubles(const op::init& init, const op::weights& weights) {
    return (init.n_levels + 1) * init.n_features + 2 * weights.density_in->shape[0] +
           weights.color_in->shape[1] + 3;
  }
  static void supports(const op::init& init, const op::weights& weights, const op::forward&,
                       fk_need& need) {
    need_floats(weights.table);
    if (HashGrid(init).rows != weights.table->shape[0])
      throw unsupported{"table: the rows of all levels"};
    need.scratch = doubles(init, weights) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const March march(init, weights.density_grid);
    const HashGrid grid(init);
    const Rows rows(Scratch(ctx), init, weights);
    int64_t found = 0;
    each_ray(args, [&](int64_t, const Ray& ray) {
      march(ray.origin.data(), ray.direction.data(),
            [&](const std::array<float, 3>&, float) { ++found; });
    });
    data<int64_t>(args.n_samples)[0] = found;
    int64_t behind = 0;  // samples of all rays up to this one
    each_ray(args, [&](int64_t at, const Ray& ray) {
      Light light;
      if (found > init.capacity)
        march(ray.origin.data(), ray.direction.data(),
              [&](const std::array<float, 3>&, float) { ++behind; });
      bool live = behind <= init.capacity;
      if (live) {
        const auto basis =
            harmonics_of(value(ray.direction[0]), value(ray.direction[1]), value(ray.direction[2]));
        march(ray.origin.data(), ray.direction.data(),
              [&](const std::array<float, 3>& position, float step) {
                if (!live) return;
                grid.encode(weights.table, position.data(), rows.encoded, rows.corner);
                const double density = field(rows, basis.data());
                live = light.add(density, rows.rgb, value(step), init.min_transmittance);
              });
      }
      const double alpha = 1 - light.left;
      store(args.out, 3 * at, 3, light.colour.data());
      store(args.alphas, at, 1, &alpha);
    });
  }

 private:
  template <class Body>
  void each_ray(const op::forward& args, const Body& body) const {
    const int64_t height = init.image_size->at[0], width = init.image_size->at[1];
    for (int64_t b = 0; b < args.viewmats->shape[0]; ++b) {
      const Camera camera(args.viewmats, args.Ks, b);
      for (int64_t at = 0; at < height * width; ++at)
        body(b * height * width + at,
             Ray(camera, static_cast<double>(at % width), static_cast<double>(at / width)));
    }
  }

  static void layer(const fk_in* weight, const double* x, double* out, bool relu) {
    matrix_vector(weight, 0, weight->shape[0], weight->shape[1], nullptr, x, out);
    for (int64_t i = 0; relu && i < weight->shape[0]; ++i) out[i] = std::max(out[i], 0.0);
  }

  // The logarithm of the density of an encoded sample; its colour is rows.rgb.
  double field(const Rows& rows, const double* basis) const {
    layer(weights.density_in, rows.encoded, rows.hidden, true);
    layer(weights.density_out, rows.hidden, rows.input, false);
    const double density = rows.input[0];
    std::copy_n(basis, init.degree * init.degree, rows.input + weights.density_out->shape[0]);
    layer(weights.color_in, rows.input, rows.hidden, true);
    layer(weights.color_hidden, rows.hidden, rows.wide, true);
    layer(weights.color_out, rows.wide, rows.rgb, false);
    for (int c = 0; c < 3; ++c) rows.rgb[c] = 1 / (1 + std::exp(-rows.rgb[c]));
    return density;
  }
};
FK_OP(nerf_render, NerfRender);

}  // namespace
}  // namespace fk::reference
