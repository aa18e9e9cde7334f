// SPDX-License-Identifier: Apache-2.0
// vit_layer as layer_norm, vit_attention, a sum, layer_norm, gelu_mlp or its parts, a sum. Sums
// are scaled_add with a scale of the channels, or add.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

Value vit_norm(Builder& b, const Region& r, const std::string& name, Value x) {
  return r.call(b, "layer_norm", "." + name + "_norm",
                {{"weight", r[name + "_norm_weight"]}, {"bias", r[name + "_norm_bias"]}, {"x", x}});
}

// x + scale * y by rows; `out` may be absent.
Value vit_sum(Builder& b, const Region& r, const std::string& name, Value x, Value y, Value out) {
  const Value scale = r[name + "_scale"];
  Args args = {{scale ? "x" : "a", x}, {scale ? "y" : "b", y}};
  if (out) args.emplace_back("out", out);
  if (!scale) return b.call("add", r.path() + "." + name + "_sum", args);
  args.emplace_back("scale", 1.0);
  args.emplace_back("gate", b.reshape(scale, {1, b.shape(x)[1]}));
  return b.call("scaled_add", r.path() + "." + name + "_sum", args);
}

// With a gate, or with a function that gelu_mlp lacks.
Value vit_mlp_parts(Builder& b, const Region& r, Value x) {
  const Value wide =
      r.call(b, "linear", ".mlp.fc1", {{"weight", r["fc1"]}, {"bias", r["fc1_bias"]}, {"x", x}});
  const std::string path = r.path() + ".mlp.act_fn";
  const int64_t width = r.integer("intermediate_size");
  const Value activated = r.flag("gated")
                              ? b.call("silu_and_mul", path, {{"size", width}, {"x", wide}})
                              : b.call("activation", path, {{"kind", "quick_gelu"}, {"x", wide}});
  return r.call(b, "linear", ".mlp.fc2",
                {{"weight", r["fc2"]}, {"bias", r["fc2_bias"]}, {"x", activated}});
}

void expand_vit_layer(Builder& b, const Region& r) {
  const Dims image = b.shape(r["x"]);
  const Dims rows = {image[0] * image[1], image[2]};
  const Value x = b.reshape(r["x"], rows);
  const Value normed = vit_norm(b, r, "attention", x);
  const Value mixed = r.call(b, "vit_attention", ".attention", {{"x", b.reshape(normed, image)}});
  const Value y = vit_sum(b, r, "attention", x, b.reshape(mixed, rows), {});
  const Value z = vit_norm(b, r, "mlp", y);
  const bool in_parts = r.flag("gated") || r.choice("approximate") == "quick";
  const Value last =
      in_parts ? vit_mlp_parts(b, r, z) : Value(r.call(b, "gelu_mlp", ".mlp", {{"x", z}}));
  vit_sum(b, r, "mlp", y, last, b.reshape(r["out"], rows));
}

FK_BLOCK(vit_layer, expand_vit_layer);

}  // namespace
}  // namespace fk
