// SPDX-License-Identifier: Apache-2.0
// fused_moe_ep as moe_dispatch, the two grouped products of this rank's experts with silu_and_mul
// between them, and moe_combine. Rows between dispatch and combine stand sorted by expert; those
// beyond the received ones are never read.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_fused_moe_ep(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), hidden = r.integer("intermediate_size");
  const int64_t ranks = r.integer("comm"), experts = r.integer("num_experts");
  const int64_t local = (experts + ranks - 1) / ranks;
  Args routing;
  for (const char* name : {"comm", "hidden_size", "num_experts", "top_k", "max_tokens_per_rank"})
    routing.emplace_back(name, r.integer(name));
  Args dispatch = routing, combine = routing;
  dispatch.emplace_back("x", r["x"]);
  dispatch.emplace_back("topk_ids", r["topk_ids"]);
  const Outputs received = b.call("moe_dispatch", r.path() + ".dispatch", dispatch);
  const auto product = [&](const char* name, int64_t in, int64_t out, Value weight,
                           Value x) -> Value {
    return b.call("moe_grouped_gemm", r.path() + name,
                  {{"in_features", in},
                   {"out_features", out},
                   {"num_experts", local},
                   {"top_k", 1},
                   {"weight", weight},
                   {"x", x},
                   {"row_ids", received["row_ids"]},
                   {"expert_offsets", received["expert_offsets"]}});
  };
  const Value gate_up = product(".w13", channels, 2 * hidden, r["w13"], received["recv_x"]);
  const Value activated =
      b.call("silu_and_mul", r.path() + ".act_fn", {{"size", hidden}, {"x", gate_up}});
  combine.emplace_back("x", product(".w2", hidden, channels, r["w2"], activated));
  combine.emplace_back("source", received["recv_source"]);
  combine.emplace_back("count", received["recv_count"]);
  combine.emplace_back("topk_ids", r["topk_ids"]);
  combine.emplace_back("topk_weights", r["topk_weights"]);
  combine.emplace_back("out", r["out"]);
  b.call("moe_combine", r.path() + ".combine", combine);
}

FK_BLOCK(fused_moe_ep, expand_fused_moe_ep);

}  // namespace
}  // namespace fk
