// SPDX-License-Identifier: Apache-2.0
// fused_moe as moe_align, a grouped product that gathers, an activation, a second grouped product
// and moe_sum. Rows between the products stand in assignment order (t * K + k) and are never
// sorted: the grouped product finds them through row_ids.
#include "baselines/blocks/projection.hpp"
#include "core/base/error.hpp"

namespace fk {
namespace {

void expand_fused_moe(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), hidden = r.integer("intermediate_size");
  const int64_t experts = r.integer("num_experts"), top_k = r.integer("top_k");
  const Outputs order = b.call("moe_align", r.path() + ".align",
                               {{"num_experts", experts}, {"topk_ids", r["topk_ids"]}});
  const auto product = [&](const char* name, int64_t in, int64_t out, int64_t rows_per_x,
                           const std::string& weight, Value x) -> Value {
    Args args = {{"in_features", in},           {"out_features", out},
                 {"num_experts", experts},      {"top_k", rows_per_x},
                 {"weight", r[weight]},         {"x", x},
                 {"row_ids", order["row_ids"]}, {"expert_offsets", order["expert_offsets"]}};
    if (!r.has(weight + "_scale_inv")) {
      args.emplace_back("bias", r[weight + "_bias"]);
      return b.call("moe_grouped_gemm", r.path() + name, args);
    }
    if (r.has(weight + "_bias"))
      fail(r.path(), "moe_grouped_gemm_fp8_block has no biases", "leave " + weight + "_bias out");
    blocks::pass_integers(args, r, {"block_n", "block_k", "quantize_input"});
    args.emplace_back("weight_scale_inv", r[weight + "_scale_inv"]);
    return b.call("moe_grouped_gemm_fp8_block", r.path() + name, args);
  };
  const Value gate_up = product(".w13", channels, 2 * hidden, top_k, "w13", r["x"]);
  const Value activated = b.call(r.choice("activation") == "silu" ? "silu_and_mul" : "swiglu_oai",
                                 r.path() + ".act_fn", {{"size", hidden}, {"x", gate_up}});
  const Value down = product(".w2", hidden, channels, 1, "w2", activated);
  b.call("moe_sum", r.path() + ".sum",
         {{"size", channels}, {"x", down}, {"topk_weights", r["topk_weights"]}, {"out", r["out"]}});
}

FK_BLOCK(fused_moe, expand_fused_moe);

}  // namespace
}  // namespace fk
