// SPDX-License-Identifier: Apache-2.0
// squeeze_excite as mean_pool, two linear with activations, scaled_add.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_squeeze_excite(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), squeezed = r.integer("squeezed_size");
  const Dims image = b.shape(r["x"]);
  const Dims rows = {image[0] * image[1] * image[2], channels};
  const Value means = r.call(b, "mean_pool", ".pool", {{"x", r["x"]}});
  const Value narrow = r.call(b, "linear", ".conv_reduce",
                              {{"weight", b.reshape(r["squeeze"], {squeezed, channels})},
                               {"bias", r["squeeze_bias"]},
                               {"x", means}});
  const Value active =
      b.call("activation", r.path() + ".act1", {{"kind", r.choice("activation")}, {"x", narrow}});
  const Value wide = r.call(b, "linear", ".conv_expand",
                            {{"weight", b.reshape(r["excite"], {channels, squeezed})},
                             {"bias", r["excite_bias"]},
                             {"x", active}});
  const Value gate = b.call("activation", r.path() + ".gate", {{"kind", "sigmoid"}, {"x", wide}});
  b.call("scaled_add", r.path() + ".scale",
         {{"scale", 1.0},
          {"gate_rows", (image[1] * image[2]).value()},
          {"y", b.reshape(r["x"], rows)},
          {"gate", gate},
          {"out", b.reshape(r["out"], rows)}});
}

FK_BLOCK(squeeze_excite, expand_squeeze_excite);

}  // namespace
}  // namespace fk
