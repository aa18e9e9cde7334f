// SPDX-License-Identifier: Apache-2.0
// The first half of a decoder layer. The path names are those of transformers and vLLM.
#include "baselines/blocks/llm/attention_part.hpp"

namespace fk::blocks {

Value attention_part(Builder& b, const Region& r, std::initializer_list<const char*> more) {
  const auto norm = [&](const char* name, Value weight, Value x) -> Value {
    return b.call("rms_norm", r.path() + name,
                  {{"hidden_size", r.integer("hidden_size")},
                   {"eps", r.number("eps")},
                   {"weight", weight},
                   {"x", x},
                   {"residual", r["residual"]}});
  };
  const Value input = norm(".input_layernorm", r["input_norm"], r["hidden"]);
  Args args;
  for (const char* name : {"hidden_size", "num_heads", "num_kv_heads", "head_dim", "page_size",
                           "rotary_dim", "max_position", "window"}) {
    args.emplace_back(name, r.integer(name));
  }
  for (const char* name : {"scale", "eps"}) args.emplace_back(name, r.number(name));
  for (const char* name :
       {"qkv", "qkv_bias", "o", "q_norm", "k_norm", "cos_sin_cache", "positions", "k_cache",
        "v_cache", "block_tables", "cu_seqlens", "seq_lens", "slot_mapping"}) {
    args.emplace_back(name, r[name]);
  }
  for (const char* name : {"max_query_len", "max_seq_len"}) args.emplace_back(name, r.scalar(name));
  for (const char* name : more) args.emplace_back(name, r[name]);
  args.emplace_back("x", input);
  const Value attended = b.call("self_attention", r.path() + ".self_attn", args);
  return norm(".post_attention_layernorm", r["post_norm"], attended);
}

}  // namespace fk::blocks
