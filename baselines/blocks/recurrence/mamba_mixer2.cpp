// SPDX-License-Identifier: Apache-2.0
// mamba_mixer2 as linear, causal convolution, scan, rms_norm_gated, linear. If every request has
// one token and a state, convolution and scan have their one-token forms.
#include "baselines/blocks/recurrence/one_token.hpp"

namespace fk {
namespace {

void expand_mamba_mixer2(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim");
  const int64_t groups = r.integer("num_groups"), state = r.integer("state_size");
  const int64_t inner = heads * width, conv = inner + 2 * groups * state;
  const Value projected =
      r.call(b, "linear", ".in_proj", {{"weight", r["in_proj"]}, {"bias", r["in_proj_bias"]}});
  const Value z = b.slice(projected, 1, 0, inner);
  const Value xbc = recurrent_part(
      b, r, "causal_conv1d_update", "causal_conv1d", ".conv1d",
      {{"weight", r["conv"]}, {"bias", r["conv_bias"]}, {"x", b.slice(projected, 1, inner, conv)}});
  const Expr tokens = b.shape(xbc)[0];
  const auto part = [&](int64_t start, int64_t count, int64_t size) {
    return b.reshape(b.slice(xbc, 1, start, count * size), {tokens, count, size});
  };
  const Value y = recurrent_part(b, r, "selective_state_update", "ssd_chunk_scan", ".ssm",
                                 {{"x", part(0, heads, width)},
                                  {"dt", b.slice(projected, 1, inner + conv, heads)},
                                  {"b", part(inner, groups, state)},
                                  {"c", part(inner + groups * state, groups, state)}});
  const Value gated = r.call(b, "rms_norm_gated", ".norm",
                             {{"group_size", r.integer("norm_group_size")},
                              {"activation", "silu"},  // the mixer's own is the convolution's
                              {"weight", r["norm"]},
                              {"x", b.reshape(y, {tokens, inner})},
                              {"z", z}});
  r.call(
      b, "linear", ".out_proj",
      {{"weight", r["out_proj"]}, {"bias", r["out_proj_bias"]}, {"x", gated}, {"out", r["out"]}});
}

FK_BLOCK(mamba_mixer2, expand_mamba_mixer2);

}  // namespace
}  // namespace fk
