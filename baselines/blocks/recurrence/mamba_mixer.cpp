// SPDX-License-Identifier: Apache-2.0
// mamba_mixer as linear, causal convolution, linear, selective scan, linear. If every request has
// one token and a state, convolution and scan have their one-token forms. Parts of a product are
// views. Norms need dense rows, so with norms dt, b and c are three products.
#include "baselines/blocks/recurrence/one_token.hpp"

namespace fk {
namespace {

void expand_mamba_mixer(Builder& b, const Region& r) {
  const int64_t inner = r.integer("intermediate_size"), size = r.integer("state_size");
  const int64_t rank = r.integer("time_step_rank");
  const Value projected =
      r.call(b, "linear", ".in_proj", {{"weight", r["in_proj"]}, {"bias", r["in_proj_bias"]}});
  const Value x = recurrent_part(
      b, r, "causal_conv1d_update", "causal_conv1d", ".conv1d",
      {{"weight", r["conv"]}, {"bias", r["conv_bias"]}, {"x", b.slice(projected, 1, 0, inner)}});
  const bool norms = r.has("dt_norm");
  const Value all = norms ? Value{}
                          : Value(r.call(b, "linear", ".x_proj",
                                         {{"weight", r["x_proj"]}, {"bias", Value{}}, {"x", x}}));
  const auto part = [&](const char* name, int64_t start, int64_t count) -> Value {
    if (!norms) return b.slice(all, 1, start, count);
    const std::string norm = std::string(name) + "_norm";
    const Value y =
        r.call(b, "linear", ".x_proj." + std::string(name),
               {{"weight", b.slice(r["x_proj"], 0, start, count)}, {"bias", Value{}}, {"x", x}});
    return r.call(b, "rms_norm", "." + norm, {{"weight", r[norm]}, {"x", y}});
  };
  const Value step = part("dt", 0, rank);
  const Value dt =
      r.call(b, "linear", ".dt_proj", {{"weight", r["dt_proj"]}, {"bias", Value{}}, {"x", step}});
  const Value y = recurrent_part(b, r, "selective_scan_update", "selective_scan", ".ssm",
                                 {{"x", x},
                                  {"dt", dt},
                                  {"b", part("b", rank, size)},
                                  {"c", part("c", rank + size, size)},
                                  {"z", b.slice(projected, 1, inner, inner)}});
  r.call(b, "linear", ".out_proj",
         {{"weight", r["out_proj"]}, {"bias", r["out_proj_bias"]}, {"x", y}, {"out", r["out"]}});
}

FK_BLOCK(mamba_mixer, expand_mamba_mixer);

}  // namespace
}  // namespace fk
