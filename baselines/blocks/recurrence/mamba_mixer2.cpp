// SPDX-License-Identifier: Apache-2.0
// mamba_mixer2 as linear, causal convolution, scan, rms_norm_gated, linear; where every request has
// one token and a state, the one-token forms of the two in the middle. z, x, b, c and dt are views.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

struct Sizes {
  int64_t heads, width, groups, state, inner, conv;
  explicit Sizes(const Region& r)
      : heads(r.integer("num_heads")),
        width(r.integer("head_dim")),
        groups(r.integer("num_groups")),
        state(r.integer("state_size")),
        inner(heads * width),
        conv(inner + 2 * groups * state) {}
};

// Known when the phase is recorded: a capture-constant bound of 1 and no word about fresh states.
bool one_token(Builder& b, const Region& r) {
  const Expr bound = r.scalar("max_query_len");
  return bound.is_constant() && bound.value() == 1 && !r.has("has_initial_state") &&
         b.shape(r["x"])[0] == b.shape(r["state_slots"])[0];
}

// What the prefill forms take besides. Without a word about fresh states all are there: any numbers
// that are not 0 say so, and the end of a request that has tokens is one.
void add_ragged(Args& args, Builder& b, const Region& r) {
  const Expr requests = b.shape(r["state_slots"])[0];
  Value has_state = r["has_initial_state"];
  if (!has_state) has_state = b.slice(r["cu_seqlens"], 0, 1, requests);
  args.emplace_back("cu_seqlens", r["cu_seqlens"]);
  args.emplace_back("has_initial_state", has_state);
  args.emplace_back("max_query_len", r.scalar("max_query_len"));
}

Value convolve(Builder& b, const Region& r, const Sizes& s, Value xbc) {
  Args args = {{"channels", s.conv},
               {"kernel_size", r.integer("kernel_size")},
               {"activation", r.choice("activation")},
               {"weight", r["conv"]},
               {"bias", r["conv_bias"]},
               {"x", xbc},
               {"conv_state", r["conv_state"]},
               {"state_slots", r["state_slots"]}};
  if (one_token(b, r)) return b.call("causal_conv1d_update", r.path() + ".conv1d", args);
  add_ragged(args, b, r);
  return b.call("causal_conv1d", r.path() + ".conv1d", args);
}

Value scan(Builder& b, const Region& r, const Sizes& s, Value xbc, Value dt) {
  const Expr tokens = b.shape(xbc)[0];
  const auto part = [&](int64_t start, int64_t count, int64_t width) {
    return b.reshape(b.slice(xbc, 1, start, count * width), {tokens, count, width});
  };
  Args args = {{"num_heads", s.heads},
               {"head_dim", s.width},
               {"num_groups", s.groups},
               {"state_size", s.state},
               {"dt_min", r.number("dt_min")},
               {"dt_max", r.number("dt_max")},
               {"a", r["a"]},
               {"d", r["d"]},
               {"dt_bias", r["dt_bias"]},
               {"x", part(0, s.heads, s.width)},
               {"dt", dt},
               {"b", part(s.inner, s.groups, s.state)},
               {"c", part(s.inner + s.groups * s.state, s.groups, s.state)},
               {"ssm_state", r["ssm_state"]},
               {"state_slots", r["state_slots"]}};
  if (one_token(b, r)) return b.call("selective_state_update", r.path() + ".ssm", args);
  args.emplace_back("chunk_size", r.integer("chunk_size"));
  add_ragged(args, b, r);
  return b.call("ssd_chunk_scan", r.path() + ".ssm", args);
}

void expand_mamba_mixer2(Builder& b, const Region& r) {
  const Sizes s(r);
  const int64_t channels = r.integer("hidden_size");
  const Value projected = b.call("linear", r.path() + ".in_proj",
                                 {{"in_features", channels},
                                  {"out_features", s.inner + s.conv + s.heads},
                                  {"weight", r["in_proj"]},
                                  {"bias", r["in_proj_bias"]},
                                  {"x", r["x"]}});
  const Value z = b.slice(projected, 1, 0, s.inner);
  const Value xbc = convolve(b, r, s, b.slice(projected, 1, s.inner, s.conv));
  const Value y = scan(b, r, s, xbc, b.slice(projected, 1, s.inner + s.conv, s.heads));
  const Value gated = b.call("rms_norm_gated", r.path() + ".norm",
                             {{"hidden_size", s.inner},
                              {"group_size", r.integer("norm_group_size")},
                              {"eps", r.number("eps")},
                              {"weight", r["norm"]},
                              {"x", b.reshape(y, {b.shape(y)[0], s.inner})},
                              {"z", z}});
  b.call("linear", r.path() + ".out_proj",
         {{"in_features", s.inner},
          {"out_features", channels},
          {"weight", r["out_proj"]},
          {"bias", r["out_proj_bias"]},
          {"x", gated},
          {"out", r["out"]}});
}

FK_BLOCK(mamba_mixer2, expand_mamba_mixer2);

}  // namespace
}  // namespace fk
