// SPDX-License-Identifier: Apache-2.0
// mamba2_block as rms_norm and mamba_mixer2. `hidden` is read by the norm only, so the mixer writes
// its result there.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_mamba2_block(Builder& b, const Region& r) {
  const Value x = b.call("rms_norm", r.path() + ".norm",
                         {{"hidden_size", r.integer("hidden_size")},
                          {"eps", r.number("eps")},
                          {"weight", r["input_norm"]},
                          {"x", r["hidden"]},
                          {"residual", r["residual"]}});
  Args args;
  for (const char* name : {"hidden_size", "num_heads", "head_dim", "num_groups", "state_size",
                           "kernel_size", "norm_group_size", "chunk_size"}) {
    args.emplace_back(name, r.integer(name));
  }
  for (const char* name : {"eps", "dt_min", "dt_max"}) args.emplace_back(name, r.number(name));
  args.emplace_back("activation", r.choice("activation"));
  for (const char* name : {"in_proj", "in_proj_bias", "conv", "conv_bias", "a", "d", "dt_bias",
                           "norm", "out_proj", "out_proj_bias", "conv_state", "ssm_state",
                           "cu_seqlens", "state_slots", "has_initial_state"}) {
    args.emplace_back(name, r[name]);
  }
  args.emplace_back("max_query_len", r.scalar("max_query_len"));
  args.emplace_back("x", x);
  args.emplace_back("out", r["hidden"]);
  b.call("mamba_mixer2", r.path() + ".mixer", args);
}

FK_BLOCK(mamba2_block, expand_mamba2_block);

}  // namespace
}  // namespace fk
