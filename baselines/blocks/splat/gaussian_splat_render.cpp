// SPDX-License-Identifier: Apache-2.0
// gaussian_splat_render as projection, colours, tiles and compositing.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_gaussian_splat_render(Builder& b, const Region& r) {
  const auto& size = r.integers("image_size");
  const int64_t tile = r.integer("tile_size");
  const int64_t down = (size[0] + tile - 1) / tile, across = (size[1] + tile - 1) / tile;
  const Outputs flat =
      r.call(b, "gaussian_projection", ".projection", {{"width", size[1]}, {"height", size[0]}});
  const Value means = flat["means2d"];
  const Expr images = b.shape(means)[0], count = b.shape(means)[1];
  b.tap("hidden.0", {b.reshape(flat["conics"], {images, count * 3})});
  const Value colors = r.call(b, "spherical_harmonics", ".colors", {});
  b.tap("hidden.1", {b.reshape(colors, {images, count * 3})});
  const Value radii = b.call("gaussian_radii", r.path() + ".radii",
                             {{"extents", b.reshape(flat["extents"], {images * count, 2})}});
  const Outputs tiles = b.call("gaussian_tile_intersection", r.path() + ".tile_intersection",
                               {{"tile_size", tile},
                                {"tile_width", across},
                                {"tile_height", down},
                                {"means2d", means},
                                {"radii", b.reshape(radii, {images, count, 2})},
                                {"depths", flat["depths"]},
                                {"isect_ids", b.empty(DType::i64, {r.integer("capacity")})},
                                {"flatten_ids", b.empty(DType::i32, {r.integer("capacity")})},
                                {"n_isects", r["n_isects"]}});
  r.call(b, "gaussian_rasterize", ".rasterize",
         {{"image_size", size},
          {"means2d", means},
          {"conics", flat["conics"]},
          {"colors", colors},
          {"isect_offsets", b.reshape(tiles["isect_offsets"], {images * (down * across)})},
          {"flatten_ids", tiles["flatten_ids"]},
          {"n_isects", r["n_isects"]},
          {"out", r["out"]},
          {"alphas", r["alphas"]}});
}

FK_BLOCK(gaussian_splat_render, expand_gaussian_splat_render);

}  // namespace
}  // namespace fk
