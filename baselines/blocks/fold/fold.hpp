// SPDX-License-Identifier: Apache-2.0
// Parts of the blocks for structures of molecules. Pairs are [T, T, C] or rows [T * T, C].
#pragma once
#include <cmath>
#include <initializer_list>

#include "core/graph/builder.hpp"

namespace fk::fold {

inline Value by_rows(Builder& b, Value v) {
  const Dims shape = b.shape(v);
  Expr rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
  return b.reshape(v, {rows, shape.back()});
}
// The rows' norm by the weights `name` and `name`_bias of the region.
inline Value norm(Builder& b, const Region& r, const std::string& path, const std::string& name,
                  Value x) {
  return b.call("layer_norm", r.path() + path,
                {{"eps", r.number("eps")},
                 {"weight", r[name]},
                 {"bias", r[name + "_bias"]},
                 {"x", by_rows(b, x)}});
}
inline Value product(Builder& b, const Region& r, const std::string& path, Value weight, Value x,
                     Value bias = {}) {
  return b.call("linear", r.path() + path, {{"weight", weight}, {"bias", bias}, {"x", x}});
}
inline Value sigmoid(Builder& b, const Region& r, const std::string& path, Value x) {
  return b.call("activation", r.path() + path, {{"kind", "sigmoid"}, {"x", x}});
}
// x_or_none + sigmoid(gate) * y, element by element, in `out` if it is given.
inline Value gated(Builder& b, const Region& r, const std::string& path, Value gate, Value y,
                   Value x_or_none = {}, Value out = {}) {
  return b.call("scaled_add", r.path() + path,
                {{"scale", 1.0},
                 {"gate_rows", 1},
                 {"x", x_or_none},
                 {"y", y},
                 {"gate", sigmoid(b, r, path + ".sigmoid", gate)},
                 {"out", out}});
}
// Copies a view to dense memory.
inline Value dense(Builder& b, const Region& r, const std::string& path, Value view) {
  return b.call("prepend_rows", r.path() + path, {{"prefix_rows", 0}, {"x", view}});
}
// Rows [N, H] of pairs as biases [1, H, M, S] of biased_attention, with N = M * S.
inline Value biases(Builder& b, const Region& r, const std::string& path, Value rows, Expr queries,
                    Expr keys) {
  const Dims shape = b.shape(rows);
  const Value by_head =
      b.call("transpose", r.path() + path, {{"x", b.reshape(rows, {1, shape[0], shape[1]})}});
  return b.reshape(by_head, {1, shape[1], queries, keys});
}
// Part `i` of rows [N, parts * H * D], as [images, tokens, H, D].
inline Value heads_of(Builder& b, Value rows, int64_t i, int64_t heads, int64_t width, Expr images,
                      Expr tokens) {
  const int64_t all = b.shape(rows)[1].value() / width;
  return b.slice(b.reshape(rows, {images, tokens, all, width}), 2, i * heads, heads);
}
inline Value added(Builder& b, const Region& r, const std::string& path, Value x, Value y,
                   Value out = {}) {
  return b.call("add", r.path() + path, {{"a", x}, {"b", y}, {"out", out}});
}
// x + gated_mlp(norm(x)), rows of the weights `name`_norm, `name`_gate_up and `name`_down.
inline Value transition(Builder& b, const Region& r, const std::string& path,
                        const std::string& name, Value x, Value out) {
  const Value wide = b.call("gated_mlp", r.path() + path + ".swiglu",
                            {{"gate_up", r[name + "_gate_up"]},
                             {"down", r[name + "_down"]},
                             {"x", norm(b, r, path + ".layer_norm", name + "_norm", x)}});
  return added(b, r, path + ".sum", x, wide, out);
}
// The pairs z behind the four updates and the transition of pair_block, in `out`.
inline Value update_pairs(Builder& b, const Region& r, const std::string& path, Value z,
                          Value out) {
  const Dims shape = b.shape(z);
  const auto update = [&](const char* op, const std::string& module, const std::string& name,
                          Args args, std::initializer_list<const char*> weights) {
    for (const char* weight : weights) args.emplace_back(weight, r[name + "_" + weight]);
    args.emplace_back("eps", r.number("eps"));
    args.emplace_back("z", z);
    const Value more = b.call(op, r.path() + path + module, args);
    z = b.reshape(added(b, r, path + module + ".sum", by_rows(b, z), by_rows(b, more)), shape);
  };
  for (const bool outgoing : {true, false})
    update("triangle_multiplication", outgoing ? ".tri_mul_out" : ".tri_mul_in",
           outgoing ? "mul_out" : "mul_in", {{"outgoing", outgoing}},
           {"norm", "norm_bias", "ab", "norm_out", "norm_out_bias", "o", "gate"});
  for (const bool ending : {false, true})
    update("triangle_attention", ending ? ".tri_att_end" : ".tri_att_start",
           ending ? "att_end" : "att_start",
           {{"ending", ending},
            {"num_heads", r.integer("num_heads")},
            {"head_dim", r.integer("head_dim")}},
           {"norm", "norm_bias", "bias_proj", "qkvg", "o"});
  return b.reshape(
      transition(b, r, path + ".pair_transition", "transition", by_rows(b, z), by_rows(b, out)),
      shape);
}

// sigmoid(gate @ n) * norm(x) + shift @ n, n = norm(s), by the weights `name`_norm and so on.
inline Value modulated(Builder& b, const Region& r, const std::string& path,
                       const std::string& name, Value x) {
  const Value s = b.call("layer_norm", r.path() + path + ".layer_norm_s",
                         {{"eps", r.number("eps")}, {"weight", r[name + "_norm"]}, {"x", r["s"]}});
  const Value a =
      b.call("layer_norm", r.path() + path + ".layer_norm_a", {{"eps", r.number("eps")}, {"x", x}});
  const Value gate =
      product(b, r, path + ".linear_g", r[name + "_gate"], s, r[name + "_gate_bias"]);
  return gated(b, r, path + ".sum", gate, a,
               product(b, r, path + ".linear_s", r[name + "_shift"], s));
}
// x + sigmoid(gate @ s + bias) * y
inline Value conditioned(Builder& b, const Region& r, const std::string& path,
                         const std::string& gate, Value y, Value x, Value out = {}) {
  return gated(b, r, path, product(b, r, path + ".gate", r[gate], r["s"], r[gate + "_bias"]), y, x,
               out);
}
// x + the MLP of a modulated block
inline Value conditioned_transition(Builder& b, const Region& r, Value x) {
  const std::string path = ".conditioned_transition";
  const Value wide = b.call("gated_mlp", r.path() + path + ".swiglu",
                            {{"gate_up", r["gate_up"]},
                             {"down", r["down"]},
                             {"x", modulated(b, r, path + ".layer_norm", "t", x)}});
  return conditioned(b, r, path + ".linear_g", "mlp_gate", wide, x, r["out"]);
}
inline double scale_of(const Region& r) {
  return 1 / std::sqrt(static_cast<double>(r.integer("head_dim")));
}

}  // namespace fk::fold
