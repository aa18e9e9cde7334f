// SPDX-License-Identifier: Apache-2.0
// global_response_norm_mlp as linear, gelu, global_response_norm, linear. All but the norm see the
// positions of all images as rows.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_global_response_norm_mlp(Builder& b, const Region& r) {
  const Dims image = b.shape(r["x"]);
  const Expr rows = image[0] * image[1] * image[2];
  const Value wide = r.call(
      b, "linear", ".fc1",
      {{"weight", r["fc1"]}, {"bias", r["fc1_bias"]}, {"x", b.reshape(r["x"], {rows, image[3]})}});
  const Value activated = r.call(b, "gelu", ".act", {{"x", wide}});
  const Expr hidden = b.shape(wide)[1];
  const Value normed =
      r.call(b, "global_response_norm", ".grn",
             {{"eps", r.number("grn_eps")},
              {"weight", r["grn_weight"]},
              {"bias", r["grn_bias"]},
              {"x", b.reshape(activated, {image[0], image[1], image[2], hidden})}});
  r.call(b, "linear", ".fc2",
         {{"weight", r["fc2"]},
          {"bias", r["fc2_bias"]},
          {"x", b.reshape(normed, {rows, hidden})},
          {"out", b.reshape(r["out"], {rows, image[3]})}});
}

FK_BLOCK(global_response_norm_mlp, expand_global_response_norm_mlp);

}  // namespace
}  // namespace fk
