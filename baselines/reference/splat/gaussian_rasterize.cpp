// SPDX-License-Identifier: Apache-2.0
// gaussian_rasterize: pixel by pixel, over the ids of its tile.
#include "fk/ops/gaussian_rasterize.h"

#include "splat.hpp"

namespace fk::reference {
namespace {

struct GaussianRasterize : Base<gaussian_rasterize> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t height = args.alphas->shape[1], width = args.alphas->shape[2];
    const int64_t size = init.tile_size, across = (width + size - 1) / size;
    const int64_t down = (height + size - 1) / size;
    const int64_t found = data<int64_t>(args.n_isects)[0];
    const bool fits = found <= args.flatten_ids->shape[0];
    for (int64_t b = 0; b < args.alphas->shape[0]; ++b) {
      for (int64_t at = 0; at < height * width; ++at) {
        const int64_t row = at / width, column = at % width;
        Pixel pixel{static_cast<double>(column) + 0.5, static_cast<double>(row) + 0.5};
        const int64_t tile = (b * down + row / size) * across + column / size;
        if (fits) draw(args, pixel, tile, found);
        if (const auto* behind = args.backgrounds.or_null)
          for (size_t c = 0; c < 3; ++c)
            pixel.colour[c] +=
                pixel.light * value(data<float>(behind)[3 * b + static_cast<int64_t>(c)]);
        const double alpha = 1 - pixel.light;
        store(args.out, 3 * (b * height * width + at), 3, pixel.colour.data());
        store(args.alphas, b * height * width + at, 1, &alpha);
      }
    }
  }

 private:
  static void draw(const op::forward& args, Pixel& pixel, int64_t tile, int64_t found) {
    const auto* offsets = data<int32_t>(args.isect_offsets);
    const int64_t tiles = args.isect_offsets->shape[0], count = args.means2d->shape[1];
    const int64_t last = tile + 1 < tiles ? offsets[tile + 1] : found;
    for (int64_t j = offsets[tile]; j < last; ++j) {
      const int64_t id = data<int32_t>(args.flatten_ids)[j];
      const float* mean = data<float>(args.means2d) + 2 * id;
      const float* conic = data<float>(args.conics) + 3 * id;
      double rgb[3];
      load(args.colors, 3 * id, 3, rgb);
      if (!pixel.draw(value(mean[0]), value(mean[1]), value(conic[0]), value(conic[1]),
                      value(conic[2]), value(data<float>(args.opacities)[id % count]), rgb))
        return;
    }
  }
};
FK_OP(gaussian_rasterize, GaussianRasterize);

}  // namespace
}  // namespace fk::reference
