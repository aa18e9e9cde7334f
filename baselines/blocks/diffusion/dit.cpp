// SPDX-License-Identifier: Apache-2.0
#include "baselines/blocks/diffusion/dit.hpp"

namespace fk::dit {

Value by_rows(Builder& b, Value x) {
  const Dims shape = b.shape(x);
  return b.reshape(x, {shape[0] * shape[1], shape[2]});
}

Value tokens(Builder& b, const std::string& path, Value x, const Expr& start, const Expr& count) {
  return b.call("prepend_rows", path, {{"prefix_rows", 0}, {"x", b.slice(x, 1, start, count)}});
}

Value silu_of_time(Builder& b, const Region& r) {
  return b.call("activation", r.path() + ".silu", {{"kind", "silu"}, {"x", r["temb"]}});
}

Modulation modulation(Builder& b, const Region& r, const std::string& name, const std::string& path,
                      Value silu) {
  return {b.call("linear", r.path() + path,
                 {{"weight", r[name]}, {"bias", r[name + "_bias"]}, {"x", silu}}),
          r.integer("hidden_size")};
}

Value modulated_norm(Builder& b, const Region& r, const std::string& path, const Modulation& m,
                     int64_t first, Value x) {
  const Value normed =
      b.call("layer_norm", r.path() + path, {{"eps", r.number("eps")}, {"x", by_rows(b, x)}});
  return b.call("modulate", r.path() + path + ".modulate",
                {{"x", b.reshape(normed, b.shape(x))},
                 {"shift", b.slice(m.rows, 1, m.channels * first, m.channels)},
                 {"scale", b.slice(m.rows, 1, m.channels * (first + 1), m.channels)}});
}

Value gated_sum(Builder& b, const Region& r, const std::string& path, const Modulation& m,
                int64_t which, Value x, Value y, Value out) {
  const Value gated = b.call(
      "modulate", r.path() + path + ".gate",
      {{"offset", 0.0}, {"x", y}, {"scale", b.slice(m.rows, 1, m.channels * which, m.channels)}});
  Args args = {{"a", by_rows(b, x)}, {"b", by_rows(b, gated)}};
  if (out) args.emplace_back("out", by_rows(b, out));
  return b.reshape(b.call("add", r.path() + path, args), b.shape(x));
}

Value projected(Builder& b, const Region& r, const std::string& path, const Stream& s, Value x) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim");
  const Dims shape = b.shape(x);
  const Value qkv = b.call("linear", r.path() + path + "_qkv",
                           {{"weight", s.qkv}, {"bias", s.qkv_bias}, {"x", by_rows(b, x)}});
  const Value pairs = b.reshape(qkv, {shape[0] * shape[1], 3 * heads, width});
  if (s.q_norm)
    b.call("qk_rms_norm", r.path() + path + "_norm",
           {{"eps", r.number("eps")},
            {"q_weight", s.q_norm},
            {"k_weight", s.k_norm},
            {"q", b.slice(pairs, 1, 0, heads)},
            {"k", b.slice(pairs, 1, heads, heads)}});
  return b.reshape(qkv, {shape[0], shape[1], 3 * heads * width});
}

Value attention(Builder& b, const Region& r, const std::string& path, Value qkv) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim");
  const Dims shape = b.shape(qkv);
  const Value by_row = b.reshape(qkv, {shape[0] * shape[1], 3 * heads, width});
  if (r.has("cos"))
    b.call("rotary_rows", r.path() + path + ".rope",
           {{"num_heads", heads},
            {"num_kv_heads", heads},
            {"head_dim", width},
            {"rotary_dim", r.integer("rotary_dim")},
            {"interleaved", r.flag("interleaved")},
            {"q", b.slice(by_row, 1, 0, heads)},
            {"k", b.slice(by_row, 1, heads, heads)},
            {"cos", r["cos"]},
            {"sin", r["sin"]}});
  const Value by_image = b.reshape(qkv, {shape[0], shape[1], 3 * heads, width});
  const Value mixed = b.call("biased_attention", r.path() + path,
                             {{"num_heads", heads},
                              {"num_kv_heads", heads},
                              {"head_dim", width},
                              {"scale", r.number("scale")},
                              {"q", b.slice(by_image, 2, 0, heads)},
                              {"k", b.slice(by_image, 2, heads, heads)},
                              {"v", b.slice(by_image, 2, 2 * heads, heads)},
                              {"mask", r["mask"]}});
  return b.reshape(mixed, {shape[0], shape[1], heads * width});
}

}  // namespace fk::dit
