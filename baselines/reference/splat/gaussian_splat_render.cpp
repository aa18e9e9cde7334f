// SPDX-License-Identifier: Apache-2.0
// gaussian_splat_render: all Gaussians of an image by depth, and each of them into each pixel.
// Tiles only count intersections: a Gaussian is too faint outside of its box.
#include "fk/ops/gaussian_splat_render.h"

#include "splat.hpp"

namespace fk::reference {
namespace {

struct GaussianSplatRender : Base<gaussian_splat_render> {
  using Base::Base;
  // A Gaussian in an image; its depth in float32 decides the order, as in the parts.
  struct Seen {
    Flat flat;
    float depth;
    int64_t id;
    double rgb[3];
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.coeffs);
    if (max.coeffs->shape[1] != (init.degree + 1) * (init.degree + 1))
      throw unsupported{"coeffs: (degree + 1)^2 for each point"};
    need.scratch = max.means->shape[0] * static_cast<int64_t>(sizeof(Seen));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t images = args.alphas->shape[0];
    int64_t found = 0;
    auto* seen = static_cast<Seen*>(ctx.scratch);
    for (int64_t b = 0; b < images; ++b) found += project(args, b, seen);
    data<int64_t>(args.n_isects)[0] = found;
    for (int64_t b = 0; b < images; ++b) {
      if (found <= init.capacity) project(args, b, seen);
      paint(args, b, seen, found <= init.capacity ? count_ : 0);
    }
  }

 private:
  // Fills `seen` with the Gaussians of an image that touch a tile, front to back, and sets count_.
  // Returns the number of their intersections with tiles.
  int64_t project(const op::forward& args, int64_t b, Seen* seen) {
    const int64_t height = args.alphas->shape[1], width = args.alphas->shape[2];
    const Lens lens{static_cast<double>(width), static_cast<double>(height), init.eps2d,
                    init.near_plane, init.far_plane};
    const Camera camera(args.viewmats, args.Ks, b);
    int64_t found = 0;
    count_ = 0;
    for (int64_t i = 0; i < args.means->shape[0]; ++i) {
      const float* mean = data<float>(args.means) + 3 * i;
      const double opacity = value(data<float>(args.opacities)[i]);
      const Flat flat = lens(camera, mean, data<float>(args.quats) + 4 * i,
                             data<float>(args.scales) + 3 * i, std::min(opacity, 1.0));
      const int64_t tiles = along(flat.x, flat.width, width) * along(flat.y, flat.height, height);
      if (flat.depth <= 0 || tiles == 0) continue;
      found += tiles;
      Seen& s = seen[count_++];
      s = {flat, static_cast<float>(flat.depth), i, {}};
      std::ranges::copy(seen_colour(camera, mean, args.coeffs, i, 0.5), s.rgb);
    }
    std::sort(seen, seen + count_, [](const Seen& x, const Seen& y) {
      return x.depth != y.depth ? x.depth < y.depth : x.id < y.id;
    });
    return found;
  }

  // Tiles within the image which a box touches along one axis, as gaussian_tile_intersection
  // counts.
  int64_t along(double mean, double extent, int64_t pixels) const {
    const auto size = static_cast<float>(init.tile_size);
    const float radius = std::ceil(static_cast<float>(extent)) / size;
    if (!(radius > 0)) return 0;
    const auto tiles = static_cast<float>((pixels + init.tile_size - 1) / init.tile_size);
    const float center = static_cast<float>(mean) / size;
    const float first = std::clamp(std::floor(center - radius), 0.F, tiles);
    return static_cast<int64_t>(std::clamp(std::ceil(center + radius), 0.F, tiles) - first);
  }

  void paint(const op::forward& args, int64_t b, const Seen* seen, int64_t count) const {
    const int64_t height = args.alphas->shape[1], width = args.alphas->shape[2];
    for (int64_t at = 0; at < height * width; ++at) {
      Pixel pixel{static_cast<double>(at % width) + 0.5, static_cast<double>(at / width) + 0.5};
      for (int64_t i = 0; i < count; ++i) {
        const Flat& f = seen[i].flat;
        // Four boxes away, a Gaussian is too faint.
        if (std::abs(f.x - pixel.x) > 4 * f.width || std::abs(f.y - pixel.y) > 4 * f.height)
          continue;
        const double opacity = value(data<float>(args.opacities)[seen[i].id]);
        if (!pixel.draw(f.x, f.y, f.xx, f.xy, f.yy, opacity, seen[i].rgb)) break;
      }
      const double alpha = 1 - pixel.light;
      store(args.out, 3 * (b * height * width + at), 3, pixel.colour.data());
      store(args.alphas, b * height * width + at, 1, &alpha);
    }
  }

  int64_t count_ = 0;
};
FK_OP(gaussian_splat_render, GaussianSplatRender);

}  // namespace
}  // namespace fk::reference
