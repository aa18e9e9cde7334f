// SPDX-License-Identifier: Apache-2.0
// unet_resnet as group_norm, conv2d, the embedded time as a summand, again both, and the shortcut.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

using Ints = std::vector<int64_t>;

Value resnet_conv(Builder& b, const Region& r, const std::string& index, Value x) {
  const Value normed = b.call("group_norm", r.path() + ".norm" + index,
                              {{"num_groups", r.integer("groups")},
                               {"eps", r.number("eps")},
                               {"activation", "silu"},
                               {"weight", r["norm" + index + "_weight"]},
                               {"bias", r["norm" + index + "_bias"]},
                               {"x", x}});
  return b.call("conv2d", r.path() + ".conv" + index,
                {{"out_channels", r.integer("out_channels")},
                 {"kernel_size", Ints{3, 3}},
                 {"stride", Ints{1, 1}},
                 {"padding", Ints{1, 1}},
                 {"dilation", Ints{1, 1}},
                 {"weight", r["conv" + index + "_weight"]},
                 {"bias", r["conv" + index + "_bias"]},
                 {"x", normed}});
}

void expand_unet_resnet(Builder& b, const Region& r) {
  const Value x = r["x"], out = r["out"];
  const Dims in = b.shape(x), shape = b.shape(out);
  const Expr pixels = shape[0] * shape[1] * shape[2];
  const Dims rows = {pixels, shape[3]}, in_rows = {pixels, in[3]};
  Value h = resnet_conv(b, r, "1", x);
  if (r.has("temb")) {
    const Value felt =
        b.call("activation", r.path() + ".nonlinearity", {{"kind", "silu"}, {"x", r["temb"]}});
    const Value shift =
        b.call("linear", r.path() + ".time_emb_proj",
               {{"weight", r["time_weight"]}, {"bias", r["time_bias"]}, {"x", felt}});
    h = b.call("modulate", r.path() + ".time",
               {{"x", b.reshape(b.reshape(h, rows), {shape[0], shape[1] * shape[2], shape[3]})},
                {"shift", shift}});
    h = b.reshape(b.reshape(h, rows), shape);
  }
  h = resnet_conv(b, r, "2", h);
  Value residual = b.reshape(x, in_rows);
  if (r.has("residual_weight")) {
    const Value weight = r["residual_weight"];
    residual = b.call("linear", r.path() + ".conv_shortcut",
                      {{"weight", b.reshape(weight, {b.shape(weight)[0], b.shape(weight)[1]})},
                       {"bias", r["residual_bias"]},
                       {"x", residual}});
  }
  b.call("add", r.path() + ".sum",
         {{"a", residual}, {"b", b.reshape(h, rows)}, {"out", b.reshape(out, rows)}});
}

FK_BLOCK(unet_resnet, expand_unet_resnet);

}  // namespace
}  // namespace fk
