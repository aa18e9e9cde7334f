// SPDX-License-Identifier: Apache-2.0
// joint_attention: projections and norms of both streams, their tokens behind one another, rope and
// attention of all, and an output projection for each stream.
#include "baselines/blocks/diffusion/dit.hpp"

namespace fk {
namespace {

void expand_joint_attention(Builder& b, const Region& r) {
  const Expr image = b.shape(r["x"])[1];
  const int64_t text = r.integer("context_tokens");
  const Value of_image =
      dit::projected(b, r, ".to", {r["qkv"], r["qkv_bias"], r["q_norm"], r["k_norm"]}, r["x"]);
  const Value of_text = dit::projected(
      b, r, ".add",
      {r["context_qkv"], r["context_qkv_bias"], r["context_q_norm"], r["context_k_norm"]},
      r["context"]);
  const Value all = b.call("prepend_rows", r.path() + ".join",
                           {{"prefix_rows", text}, {"x", of_image}, {"before", of_text}});
  const Value mixed = dit::attention(b, r, ".attn", all);
  const auto project = [&](const char* path, const std::string& weight, const Expr& start,
                           const Expr& count, Value out) {
    const Value rows = dit::tokens(b, r.path() + path + ".rows", mixed, start, count);
    b.call("linear", r.path() + path,
           {{"weight", r[weight]},
            {"bias", r[weight + "_bias"]},
            {"x", dit::by_rows(b, rows)},
            {"out", dit::by_rows(b, out)}});
  };
  project(".to_out.0", "o", text, image, r["out"]);
  project(".to_add_out", "context_o", 0, text, r["context_out"]);
}

FK_BLOCK(joint_attention, expand_joint_attention);

}  // namespace
}  // namespace fk
