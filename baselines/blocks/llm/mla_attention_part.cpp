// SPDX-License-Identifier: Apache-2.0
#include "baselines/blocks/llm/mla_attention_part.hpp"

namespace fk::blocks {

Value mla_attention_part(Builder& b, const Region& r) {
  const auto norm = [&](const char* name, Value weight, Value x) -> Value {
    return b.call("rms_norm", r.path() + name,
                  {{"hidden_size", r.integer("hidden_size")},
                   {"eps", r.number("eps")},
                   {"weight", weight},
                   {"x", x},
                   {"residual", r["residual"]}});
  };
  Args args = {{"x", norm(".input_layernorm", r["input_norm"], r["hidden"])},
               {"scale", r.number("scale")},
               {"eps", r.number("eps")},
               {"max_query_len", r.scalar("max_query_len")},
               {"max_seq_len", r.scalar("max_seq_len")}};
  pass_integers(args, r,
                {"hidden_size", "num_heads", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",
                 "qk_rope_head_dim", "v_head_dim", "page_size", "max_position", "interleaved",
                 "block_n", "block_k", "quantize_input"});
  pass_tensors(args, r,
               {"qkv_a", "qkv_a_scale_inv", "q_a_norm", "q_b", "q_b_scale_inv", "kv_a_norm", "w_uk",
                "w_uv", "o", "o_scale_inv", "cos_sin_cache", "positions", "kv_cache",
                "block_tables", "cu_seqlens", "seq_lens", "slot_mapping"});
  const Value attended = b.call("mla_self_attention", r.path() + ".self_attn", args);
  return norm(".post_attention_layernorm", r["post_norm"], attended);
}

}  // namespace fk::blocks
