// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/fold/parts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "baselines/models/parts/image.hpp"

namespace fk::parts::folding {

Value tensor(Net& n, const std::string& name, DType dtype, const std::vector<int64_t>& shape) {
  Dims dims = {n.axis("B")}, own;
  for (const int64_t size : shape) dims.emplace_back(size), own.emplace_back(size);
  return n.reshape(n.slice(n.input(name, dtype, dims), 0, 0, 1), own);
}
Value floats(Net& n, const std::string& name, const std::vector<int64_t>& shape) {
  return tensor(n, name, DType::f32, shape);
}
Value whole(Net& n, const std::string& name, int64_t count) {
  return tensor(n, name, DType::i32, {count});
}
Value rows_of(Net& n, Value v) {
  const Dims shape = n.shape(v);
  Expr rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
  return n.reshape(v, {rows, shape.back()});
}
std::string own_dtype(Net& n) { return std::string(name(n.limits().dtype)); }
Value cast(Net& n, const std::string& path, Value v) {
  if (n.dtype(v) == n.limits().dtype) return v;
  const Dims shape = n.shape(v);
  const Value rows = rows_of(n, v);
  const Dims flat = n.shape(rows);
  const Value out = n("transpose", path + ".cast",
                      {{"x", n.reshape(rows, {flat[0], flat[1], 1})}, {"out", own_dtype(n)}});
  return n.reshape(out, shape);
}
Value product(Net& n, const std::string& path, Value x, int64_t width) {
  return n("linear", path, {{"out_features", width}, {"x", rows_of(n, x)}, {"out", own_dtype(n)}});
}
Value norm(Net& n, const std::string& path, Value x, bool bias) {
  Args args = {{"x", rows_of(n, x)}};
  if (!bias) args.emplace_back("bias", Value{});
  return n("layer_norm", path, args);
}
Value activated(Net& n, const std::string& path, const char* kind, Value x) {
  return n("activation", path, {{"kind", kind}, {"x", x}});
}
Value sum(Net& n, const std::string& path, Value a, Value b) {
  return n("add", path, {{"a", rows_of(n, a)}, {"b", rows_of(n, b)}});
}
Value gathered(Net& n, const std::string& path, Value x, Value rows) {
  return n("gather_rows", path, {{"x", x}, {"rows", rows}});
}
Value joined(Net& n, const std::string& path, const std::vector<Value>& parts) {
  std::vector<int64_t> sizes;
  int64_t all = 0;
  for (const Value part : parts) {
    sizes.push_back(n.shape(part).back().value());
    all += sizes.back();
  }
  return n("concat_channels", path,
           {{"num_parts", static_cast<int64_t>(parts.size())},
            {"sizes", sizes},
            {"size", all},
            {"x", parts},
            {"out", n.empty(n.dtype(parts[0]), {n.shape(parts[0])[0], all})}});
}
Value pair_sum(Net& n, const std::string& path, Value x, Value left, Value right) {
  const Dims shape = n.shape(x);
  const Value half = n("modulate", path + ".left", {{"x", x}, {"shift", left}});
  return n.reshape(columns_sum(n, path + ".right", half, right), shape);
}
Value columns_sum(Net& n, const std::string& path, Value x, Value y) {
  const Dims shape = n.shape(x);
  const Expr all = shape[1] * shape[2];
  const Value out = n("modulate", path,
                      {{"x", n.reshape(x, {1, shape[0], all})}, {"shift", n.reshape(y, {1, all})}});
  return n.reshape(out, shape);
}
Value transition(Net& n, const std::string& path, Value x, int64_t times) {
  const Value rows = rows_of(n, x);
  const int64_t width = n.shape(rows)[1].value();
  const Value wide =
      n("gated_mlp", path,
        {{"intermediate_size", width * times}, {"x", norm(n, path + ".layer_norm", rows, true)}});
  return n.reshape(sum(n, path + ".sum", rows, wide), n.shape(x));
}

Windows windows(Net& n, const FoldSizes& f, const AtomSizes& a) {
  const int64_t atoms = f.atoms, count = f.windows(a), queries = a.queries, keys = a.keys;
  const auto table = [&](const char* what, std::vector<int64_t> shape, auto number) {
    const int64_t all = shape.size() > 1 ? shape[0] * shape[1] : shape[0];
    return computed(n, fmt::format("windows.{}.{}.{}", queries, keys, what), DType::i32,
                    std::move(shape), [=] {
                      std::vector<double> numbers;
                      for (int64_t i = 0; i < all; ++i)
                        numbers.push_back(static_cast<double>(number(i)));
                      return numbers;
                    });
  };
  return {table("queries", {count, queries}, [=](int64_t i) { return std::min(i, atoms - 1); }),
          table("keys", {count, keys},
                [=](int64_t i) {
                  const int64_t first = i / keys * queries + queries / 2 - keys / 2;
                  return std::clamp(first, int64_t{0}, atoms - keys) + i % keys;
                }),
          table("places", {atoms}, [](int64_t i) { return i; })};
}

Value atom_features(Net& n, const FoldSizes& f, const std::string& path, const AtomSizes& a) {
  const Value charge =
      activated(n, path + ".charge", "asinh", floats(n, "ref_charge", {f.atoms, 1}));
  Value c = product(n, path + ".linear_ref_pos", floats(n, "ref_pos", {f.atoms, 3}), a.atom);
  const auto add = [&](const std::string& what, Value features) {
    c = sum(n, path + "." + what + ".sum", c,
            product(n, path + ".linear_" + what, features, a.atom));
  };
  add("ref_charge", charge);
  add("ref_mask", floats(n, "ref_mask", {f.atoms, 1}));
  add("ref_element", floats(n, "ref_element", {f.atoms, a.elements}));
  add("ref_atom_chars", floats(n, "ref_atom_name_chars", {f.atoms, a.letters}));
  return c;
}
Value atom_pairs(Net& n, const FoldSizes& f, const std::string& path, const AtomSizes& a,
                 const Windows& w) {
  const Dims shape = {f.windows(a), a.queries, a.keys};
  const auto out = [&](int64_t width) {
    return n.empty(n.limits().dtype, {shape[0], shape[1], shape[2], width});
  };
  const Outputs features = n("atom_pair_features", path + ".pairs",
                             {{"positions", floats(n, "ref_pos", {f.atoms, 3})},
                              {"spaces", whole(n, "ref_space_uid", f.atoms)},
                              {"q_rows", w.q_rows},
                              {"k_rows", w.k_rows},
                              {"offsets", out(3)},
                              {"nearness", out(1)},
                              {"same", out(1)}});
  const Value near =
      sum(n, path + ".near", product(n, path + ".linear_ref_offset", features["offsets"], a.pair),
          product(n, path + ".linear_inv_sq_dists", features["nearness"], a.pair));
  return sum(n, path + ".same", near,
             product(n, path + ".linear_valid_mask", features["same"], a.pair));
}
Value atom_pairs_of(Net& n, const FoldSizes& f, const std::string& path, const AtomSizes& a,
                    const Windows& w, Value pairs, Value condition) {
  const int64_t count = f.windows(a);
  const Value active = activated(n, path + ".relu", "relu", condition);
  const auto side = [&](const char* which, Value rows, int64_t each) {
    return gathered(n, path + ".rows_" + which,
                    product(n, path + ".linear_" + which, active, a.pair),
                    n.reshape(rows, {count * each}));
  };
  const Value left = side("l", w.q_rows, a.queries), right = side("m", w.k_rows, a.keys);
  Value p = n("modulate", path + ".queries",
              {{"x", n.reshape(pairs, {count * a.queries, a.keys, a.pair})}, {"shift", left}});
  p = n("modulate", path + ".keys",
        {{"x", n.reshape(p, {count, a.queries, a.keys * a.pair})},
         {"shift", n.reshape(right, {count, a.keys * a.pair})}});
  p = n.reshape(p, {count * a.queries * a.keys, a.pair});
  Value x = p;
  for (const int64_t i : {1, 3, 5}) {
    const std::string at = fmt::format("{}.pair_mlp.", path);
    x = product(n, at + std::to_string(i), activated(n, at + std::to_string(i - 1), "relu", x),
                a.pair);
  }
  return n.reshape(sum(n, path + ".pair_mlp.sum", p, x), {count, a.queries, a.keys, a.pair});
}
Value atom_blocks(Net& n, const std::string& path, const AtomSizes& a, const Windows& w, Value x,
                  Value condition, Value pairs) {
  for (int64_t i = 0; i < a.blocks; ++i) {
    x = n("atom_transformer_block", fmt::format("{}.atom_transformer.blocks.{}", path, i),
          {{"num_heads", a.heads},
           {"head_dim", a.head_dim},
           {"intermediate_size", a.atom * a.transition},
           {"x", x},
           {"s", condition},
           {"z", pairs},
           {"q_rows", w.q_rows},
           {"k_rows", w.k_rows},
           {"places", w.places}});
  }
  return x;
}
Value normed_pairs(Net& n, const std::string& path, Value pairs) {
  return n.reshape(norm(n, path + ".layer_norm_z", pairs), n.shape(pairs));
}
Value tokens_of(Net& n, const FoldSizes& f, const std::string& path, const AtomSizes& a,
                Value atoms) {
  const Value own =
      activated(n, path + ".linear_q.1", "relu", product(n, path + ".linear_q.0", atoms, a.token));
  const Value of = whole(n, "atom_to_token_index", f.atoms);
  const Outputs sorted = n("moe_align", path + ".atoms",
                           {{"num_experts", f.tokens}, {"topk_ids", n.reshape(of, {f.atoms, 1})}});
  return n("segment_reduce", path + ".tokens",
           {{"reduce", "mean"},
            {"num_segments", f.tokens},
            {"x", own},
            {"rows", sorted["row_ids"]},
            {"offsets", sorted["expert_offsets"]},
            {"out", n.empty(n.limits().dtype, {f.tokens, a.token})}});
}

}  // namespace fk::parts::folding
