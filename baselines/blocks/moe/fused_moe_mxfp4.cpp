// SPDX-License-Identifier: Apache-2.0
// fused_moe_mxfp4 as moe_align, two grouped products with mxfp4 weights, swiglu_oai between them,
// and moe_sum.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_fused_moe_mxfp4(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), hidden = r.integer("intermediate_size");
  const int64_t experts = r.integer("num_experts"), top_k = r.integer("top_k");
  const Outputs order = b.call("moe_align", r.path() + ".align",
                               {{"num_experts", experts}, {"topk_ids", r["topk_ids"]}});
  const auto product = [&](const std::string& name, int64_t in, int64_t out, int64_t rows_per_x,
                           Value x) -> Value {
    return b.call("moe_grouped_gemm_mxfp4", r.path() + "." + name,
                  {{"in_features", in},
                   {"out_features", out},
                   {"num_experts", experts},
                   {"top_k", rows_per_x},
                   {"weight", r[name]},
                   {"weight_scale", r[name + "_scale"]},
                   {"bias", r[name + "_bias"]},
                   {"x", x},
                   {"row_ids", order["row_ids"]},
                   {"expert_offsets", order["expert_offsets"]}});
  };
  const Value activated = b.call("swiglu_oai", r.path() + ".act_fn",
                                 {{"size", hidden},
                                  {"alpha", r.number("alpha")},
                                  {"limit", r.number("limit")},
                                  {"x", product("w13", channels, 2 * hidden, top_k, r["x"])}});
  b.call("moe_sum", r.path() + ".sum",
         {{"size", channels},
          {"x", product("w2", hidden, channels, 1, activated)},
          {"topk_weights", r["topk_weights"]},
          {"out", r["out"]}});
}

FK_BLOCK(fused_moe_mxfp4, expand_fused_moe_mxfp4);

}  // namespace
}  // namespace fk
