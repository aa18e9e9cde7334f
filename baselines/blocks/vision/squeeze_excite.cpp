// SPDX-License-Identifier: Apache-2.0
// squeeze_excite as mean_pool, two linear with activations, modulate.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_squeeze_excite(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), squeezed = r.integer("squeezed_size");
  const Dims image = b.shape(r["x"]);
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
  // By way of rows: then the strides of symbolic sizes are those of a dense tensor.
  const auto in_rows = [&](Value v) {
    const Expr pixels = image[1] * image[2];
    return b.reshape(b.reshape(v, {image[0] * pixels, image[3]}), {image[0], pixels, image[3]});
  };
  b.call("modulate", r.path() + ".scale",
         {{"offset", 0.0}, {"x", in_rows(r["x"])}, {"scale", gate}, {"out", in_rows(r["out"])}});
}

FK_BLOCK(squeeze_excite, expand_squeeze_excite);

}  // namespace
}  // namespace fk
