// SPDX-License-Identifier: Apache-2.0
// gelu_mlp as linear, gelu, linear.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_gelu_mlp(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), hidden = r.integer("intermediate_size");
  const Value wide = b.call("linear", r.path() + ".fc1",
                            {{"in_features", channels},
                             {"out_features", hidden},
                             {"weight", r["fc1"]},
                             {"bias", r["fc1_bias"]},
                             {"x", r["x"]}});
  const Value activated =
      b.call("gelu", r.path() + ".act_fn",
             {{"size", hidden}, {"approximate", r.choice("approximate")}, {"x", wide}});
  b.call("linear", r.path() + ".fc2",
         {{"in_features", hidden},
          {"out_features", channels},
          {"weight", r["fc2"]},
          {"bias", r["fc2_bias"]},
          {"x", activated},
          {"out", r["out"]}});
}

FK_BLOCK(gelu_mlp, expand_gelu_mlp);

}  // namespace
}  // namespace fk
