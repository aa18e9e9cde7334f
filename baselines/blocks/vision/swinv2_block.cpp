// SPDX-License-Identifier: Apache-2.0
// swinv2_block as select_rows, window_attention, select_rows, layer_norm, a sum, gelu_mlp,
// layer_norm, a sum.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

// The rows of every image in the order of `rows`.
Value in_order(Builder& b, const Region& r, const char* path, Value x, Value rows) {
  return r.call(b, "select_rows", path, {{"x", x}, {"rows", rows}});
}

// x + norm(y) by rows; `out` may be absent.
Value sum_with_norm(Builder& b, const Region& r, const std::string& name, Value x, Value y,
                    Value out) {
  const Value normed =
      r.call(b, "layer_norm", "." + name + "_norm",
             {{"weight", r[name + "_norm_weight"]}, {"bias", r[name + "_norm_bias"]}, {"x", y}});
  Args args = {{"a", x}, {"b", normed}};
  if (out) args.emplace_back("out", out);
  return b.call("add", r.path() + "." + name + "_sum", args);
}

void expand_swinv2_block(Builder& b, const Region& r) {
  const int64_t tokens = r.integer("window_tokens");
  const Dims image = b.shape(r["x"]);
  const Dims rows = {image[0] * image[1], image[2]};
  const Expr windows = image[1] / tokens;
  const Value cut = in_order(b, r, ".windows", r["x"], r["to_windows"]);
  const Value mixed = r.call(b, "window_attention", ".attention",
                             {{"x", b.reshape(cut, {image[0] * windows, tokens, image[2]})}});
  const Value back = in_order(b, r, ".pixels", b.reshape(mixed, image), r["to_pixels"]);
  const Value y =
      sum_with_norm(b, r, "attention", b.reshape(r["x"], rows), b.reshape(back, rows), {});
  const Value z = r.call(b, "gelu_mlp", ".mlp", {{"x", y}});
  sum_with_norm(b, r, "mlp", y, z, b.reshape(r["out"], rows));
}

FK_BLOCK(swinv2_block, expand_swinv2_block);

}  // namespace
}  // namespace fk
