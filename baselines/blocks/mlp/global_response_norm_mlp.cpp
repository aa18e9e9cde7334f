// SPDX-License-Identifier: Apache-2.0
// global_response_norm_mlp as linear, gelu, global_response_norm, linear. All but the norm see the
// positions of all images as rows.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_global_response_norm_mlp(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), hidden = r.integer("intermediate_size");
  const Dims image = b.shape(r["x"]);
  const Expr rows = image[0] * image[1] * image[2];
  const Value wide = b.call("linear", r.path() + ".fc1",
                            {{"in_features", channels},
                             {"out_features", hidden},
                             {"weight", r["fc1"]},
                             {"bias", r["fc1_bias"]},
                             {"x", b.reshape(r["x"], {rows, channels})}});
  const Value activated =
      b.call("gelu", r.path() + ".act",
             {{"size", hidden}, {"approximate", r.choice("approximate")}, {"x", wide}});
  const Value normed =
      b.call("global_response_norm", r.path() + ".grn",
             {{"hidden_size", hidden},
              {"eps", r.number("grn_eps")},
              {"weight", r["grn_weight"]},
              {"bias", r["grn_bias"]},
              {"x", b.reshape(activated, {image[0], image[1], image[2], hidden})}});
  b.call("linear", r.path() + ".fc2",
         {{"in_features", hidden},
          {"out_features", channels},
          {"weight", r["fc2"]},
          {"bias", r["fc2_bias"]},
          {"x", b.reshape(normed, {rows, hidden})},
          {"out", b.reshape(r["out"], {rows, channels})}});
}

FK_BLOCK(global_response_norm_mlp, expand_global_response_norm_mlp);

}  // namespace
}  // namespace fk
