// SPDX-License-Identifier: Apache-2.0
// gaussian_rasterize: a vector of pixels of a row takes the Gaussians of its tile one by one. A
// group of Gaussians which are too faint for all of the pixels, or pixels which are done, end
// early.
#include "math.hpp"

namespace fk::cpu {
struct SplatTile {
  const float *means, *conics, *colors, *opacities, *background_or_null;
  const int32_t* ids;
  float *out, *alphas;  // of the image
  int64_t id_count, gaussians, width;
  int64_t left, right, top, bottom;  // pixels of the tile; right and bottom are exclusive
};
}  // namespace fk::cpu
FK_CPU_KERNEL(splat_tile, const SplatTile&)

namespace fk::cpu::FK_CPU_LEVEL {

inline constexpr int64_t kBetweenChecks = 16;  // Gaussians between two looks at the pixels' light

FK_INLINE bool any(Vi mask) {
  int32_t all = 0;
  for (int64_t i = 0; i < kLanes; ++i) all |= mask[i];
  return all != 0;
}

// n pixels of row y from x on.
FK_INLINE void splat_pixels(const SplatTile& a, int64_t x, int64_t y, int64_t n) {
  Vf px = {}, light = splat(1.f), red = {}, green = {}, blue = {};
  for (int64_t i = 0; i < kLanes; ++i) px[i] = static_cast<float>(x + i) + 0.5f;
  const float py = static_cast<float>(y) + 0.5f;
  Vi live = splat(0.f) == splat(0.f);
  for (int64_t j = 0; j < a.id_count; ++j) {
    if (j % kBetweenChecks == 0 && !any(live)) break;
    const int64_t id = a.ids[j];
    const float *mean = a.means + 2 * id, *conic = a.conics + 3 * id, *color = a.colors + 3 * id;
    const Vf dx = splat(mean[0]) - px;
    const float dy = mean[1] - py;
    const Vf s = 0.5f * (conic[0] * dx * dx + conic[2] * dy * dy) + conic[1] * dy * dx;
    const Vf alpha = min(splat(0.999f), exp(-s) * a.opacities[id % a.gaussians]);
    Vi drawn = live & (s >= Vf{}) & (alpha >= splat(1.f / 255));
    const Vf next = light * (1.f - alpha);
    const Vi done = drawn & (next <= splat(1e-4f));
    live &= ~done;
    drawn &= ~done;
    const Vf share = drawn ? alpha * light : Vf{};
    red += share * color[0], green += share * color[1], blue += share * color[2];
    light = drawn ? next : light;
  }
  if (a.background_or_null) {
    red += light * a.background_or_null[0];
    green += light * a.background_or_null[1];
    blue += light * a.background_or_null[2];
  }
  float* out = a.out + (y * a.width + x) * 3;
  for (int64_t i = 0; i < n; ++i) {
    out[3 * i] = red[i], out[3 * i + 1] = green[i], out[3 * i + 2] = blue[i];
    a.alphas[y * a.width + x + i] = 1.f - light[i];
  }
}

void splat_tile(const SplatTile& a) {
  for (int64_t y = a.top; y < a.bottom; ++y)
    for (int64_t x = a.left; x < a.right; x += kLanes)
      splat_pixels(a, x, y, a.right - x < kLanes ? a.right - x : kLanes);
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/gaussian_rasterize.h"
#include "op.hpp"

namespace fk::cpu {

struct GaussianRasterizeOp {
  using op = fk::gaussian_rasterize;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  GaussianRasterizeOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t height = args.alphas->shape[1], width = args.alphas->shape[2];
    const int64_t size = init_.tile_size, across = (width + size - 1) / size;
    const int64_t each = (height + size - 1) / size * across, tiles = args.isect_offsets->shape[0];
    const int64_t found = *data<int64_t>(args.n_isects);
    const bool fits = found <= args.flatten_ids->shape[0];
    const auto* offsets = data<int32_t>(args.isect_offsets);
    const int64_t work = (fits ? found : 0) * size * size * 8 + args.out->nbytes;
    share(threads_, tiles, work, [&](int64_t tile, int) {
      const int64_t b = tile / each, row = tile % each / across * size;
      const int64_t column = tile % across * size;
      const int64_t last = tile + 1 < tiles ? offsets[tile + 1] : found;
      const float* behind = data<float>(args.backgrounds);
      kernel_({data<float>(args.means2d), data<float>(args.conics), data<float>(args.colors),
               data<float>(args.opacities), behind ? behind + 3 * b : nullptr,
               data<int32_t>(args.flatten_ids) + offsets[tile],
               data<float>(args.out) + b * height * width * 3,
               data<float>(args.alphas) + b * height * width, fits ? last - offsets[tile] : 0,
               args.means2d->shape[1], width, column, std::min(width, column + size), row,
               std::min(height, row + size)});
    });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::splat_tile) kernel_ = FK_CPU_PICK(splat_tile);
};
FK_OP(gaussian_rasterize, GaussianRasterizeOp);

}  // namespace fk::cpu
#endif
