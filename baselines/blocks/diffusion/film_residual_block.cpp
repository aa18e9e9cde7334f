// SPDX-License-Identifier: Apache-2.0
// film_residual_block as two conv1d_group_norm with a modulation between them, and the residual.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

Value film_conv(Builder& b, const Region& r, const std::string& index, Value x) {
  return r.call(b, "conv1d_group_norm", ".blocks." + index,
                {{"weight", r["weight_" + index]},
                 {"bias", r["bias_" + index]},
                 {"norm_weight", r["norm_weight_" + index]},
                 {"norm_bias", r["norm_bias_" + index]},
                 {"x", x}});
}

void expand_film_residual_block(Builder& b, const Region& r) {
  const Value x = r["x"], cond = r["cond"], out = r["out"];
  const int64_t channels = r.integer("out_channels");
  const Dims shape = b.shape(out), rows = {shape[0] * shape[1], shape[2]};
  const Dims in = b.shape(x), in_rows = {in[0] * in[1], in[2]};
  const Value felt =
      b.call("activation", r.path() + ".cond_encoder.0", {{"kind", "mish"}, {"x", cond}});
  const Value film = b.call("linear", r.path() + ".cond_encoder.1",
                            {{"weight", r["cond_weight"]}, {"bias", r["cond_bias"]}, {"x", felt}});
  const Value y = film_conv(b, r, "0", x);
  const Value moved = b.call("modulate", r.path() + ".film",
                             {{"offset", 0.0},
                              {"x", y},
                              {"scale", b.slice(film, 1, 0, channels)},
                              {"shift", b.slice(film, 1, channels, channels)}});
  const Value z = film_conv(b, r, "1", moved);
  Value residual = b.reshape(x, in_rows);
  if (r.has("residual_weight")) {
    const Value weight = r["residual_weight"];
    residual = b.call("linear", r.path() + ".residual_conv",
                      {{"weight", b.reshape(weight, {b.shape(weight)[0], b.shape(weight)[1]})},
                       {"bias", r["residual_bias"]},
                       {"x", residual}});
  }
  b.call("add", r.path() + ".sum",
         {{"a", b.reshape(z, rows)}, {"b", residual}, {"out", b.reshape(out, rows)}});
}

FK_BLOCK(film_residual_block, expand_film_residual_block);

}  // namespace
}  // namespace fk
