// SPDX-License-Identifier: Apache-2.0
// low_rank_cross as two products and a modulation of the input for each cross.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_low_rank_cross(Builder& b, const Region& r) {
  const int64_t layers = r.integer("num_layers"), size = r.integer("size");
  const Expr rows = b.shape(r["x"])[0];
  const Value first = b.reshape(r["x"], {rows, 1, size});
  Value x = r["x"];
  for (int64_t l = 0; l < layers; ++l) {
    const std::string path = r.path() + "." + std::to_string(l);
    const Value narrow = b.call("linear", path + ".v", {{"weight", r.at("v", l)}, {"x", x}});
    const Value wide = b.call("linear", path + ".w",
                              {{"weight", r.at("w", l)}, {"bias", r.at("bias", l)}, {"x", narrow}});
    const Value out = l + 1 == layers ? r["out"] : b.empty(b.dtype(x), {rows, size});
    b.call("modulate", path + ".cross",
           {{"offset", 0.0},
            {"x", first},
            {"scale", wide},
            {"shift", x},
            {"out", b.reshape(out, {rows, 1, size})}});
    x = out;
  }
}

FK_BLOCK(low_rank_cross, expand_low_rank_cross);

}  // namespace
}  // namespace fk
