// SPDX-License-Identifier: Apache-2.0
// point_transformer_block as a sparse convolution, attention in patches and an MLP.
#include "baselines/blocks/point/patches.hpp"

namespace fk {
namespace {

void expand_point_transformer_block(Builder& b, const Region& r) {
  const Value x = r["x"];
  const auto norm = [&](const std::string& path, const std::string& name, Value in) {
    return Value(b.call(
        "layer_norm", r.path() + path,
        {{"eps", r.number("eps")}, {"weight", r[name]}, {"bias", r[name + "_bias"]}, {"x", in}}));
  };
  const auto sum = [&](const std::string& path, Value left, Value right, Value out) {
    return Value(b.call("add", r.path() + path, {{"a", left}, {"b", right}, {"out", out}}));
  };
  const auto linear = [&](const std::string& path, const std::string& name, Value in) {
    return Value(b.call("linear", r.path() + path,
                        {{"weight", r[name]}, {"bias", r[name + "_bias"]}, {"x", in}}));
  };
  const Value near =
      b.call("sparse_conv", r.path() + ".cpe.0",
             {{"weight", r["conv"]}, {"bias", r["conv_bias"]}, {"x", x}, {"table", r["table"]}});
  const Value placed =
      sum(".cpe.sum", x, norm(".cpe.2", "position_norm", linear(".cpe.1", "position", near)), {});
  const Value mixed =
      patch_attention(b, r, r.path() + ".attn", norm(".norm1.0", "norm1", placed), {});
  const Value seen = sum(".attn.sum", placed, mixed, {});
  const Value wide = linear(".mlp.0.fc1", "fc1", norm(".norm2.0", "norm2", seen));
  const Value hidden = b.call("gelu", r.path() + ".mlp.0.act", {{"x", wide}});
  sum(".mlp.sum", seen, linear(".mlp.0.fc2", "fc2", hidden), r["out"]);
}

FK_BLOCK(point_transformer_block, expand_point_transformer_block);

}  // namespace
}  // namespace fk
