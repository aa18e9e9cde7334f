// SPDX-License-Identifier: Apache-2.0
// bidirectional_decoder_layer as rms_norm, bidirectional_attention, rms_norm, gated_mlp. `hidden`
// is read by the first norm only, so the MLP writes its result there.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_bidirectional_decoder_layer(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size");
  const auto norm = [&](const char* name, Value weight, Value x) -> Value {
    return b.call("rms_norm", r.path() + name,
                  {{"hidden_size", channels},
                   {"eps", r.number("eps")},
                   {"weight", weight},
                   {"x", x},
                   {"residual", r["residual"]}});
  };
  const Value input = norm(".attn_norm", r["input_norm"], r["hidden"]);
  Args args{{"hidden_size", channels}, {"scale", r.number("scale")}};
  for (const char* name : {"num_heads", "num_kv_heads", "head_dim", "rotary_dim", "max_position"})
    args.emplace_back(name, r.integer(name));
  for (const char* name : {"qkv", "qkv_bias", "o", "cos_sin_cache", "positions", "cu_seqlens"})
    args.emplace_back(name, r[name]);
  args.emplace_back("max_seqlen", r.scalar("max_seqlen"));
  args.emplace_back("x", input);
  const Value attended = b.call("bidirectional_attention", r.path() + ".attention", args);
  const Value x = norm(".ff_norm", r["post_norm"], attended);
  b.call("gated_mlp", r.path() + ".mlp",
         {{"hidden_size", channels},
          {"intermediate_size", r.integer("intermediate_size")},
          {"gate_up", r["gate_up"]},
          {"down", r["down"]},
          {"x", x},
          {"out", r["hidden"]}});
}

FK_BLOCK(bidirectional_decoder_layer, expand_bidirectional_decoder_layer);

}  // namespace
}  // namespace fk
