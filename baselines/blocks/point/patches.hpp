// SPDX-License-Identifier: Apache-2.0
// Attention of cells within patches, for the blocks of point clouds.
#pragma once
#include "core/graph/builder.hpp"

namespace fk {

// Products of x [T, C], attention in the region's patches, and the result of each cell's own place.
// The last product may write `out`.
inline Value patch_attention(Builder& b, const Region& r, const std::string& path, Value x,
                             Value out) {
  const int64_t heads = r.integer("num_heads"), all = b.shape(x)[1].value();
  const int64_t patch = r.integer("patch_size");
  const Expr patches = b.shape(r["mask"])[0], places = patches * patch;
  const Value qkv =
      b.call("linear", path + ".qkv", {{"weight", r["qkv"]}, {"bias", r["qkv_bias"]}, {"x", x}});
  const Value padded = b.call("gather_rows", path + ".padded",
                              {{"x", qkv}, {"rows", b.reshape(r["padded_rows"], {places})}});
  const Value rows = b.reshape(padded, {patches, patch, 3 * heads, all / heads});
  const auto part = [&](int64_t i) { return b.slice(rows, 2, i * heads, heads); };
  const Value mixed = b.call("biased_attention", path + ".attention",
                             {{"scale", r.number("scale")},
                              {"q", part(0)},
                              {"k", part(1)},
                              {"v", part(2)},
                              {"mask", r["mask"]}});
  const Value own = b.call("gather_rows", path + ".places",
                           {{"x", b.reshape(mixed, {places, all})}, {"rows", r["places"]}});
  return b.call("linear", path + ".proj",
                {{"weight", r["proj"]}, {"bias", r["proj_bias"]}, {"x", own}, {"out", out}});
}

}  // namespace fk
