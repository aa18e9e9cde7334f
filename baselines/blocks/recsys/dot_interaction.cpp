// SPDX-License-Identifier: Apache-2.0
// dot_interaction as the features side by side, their pairwise_dots, and dense beside the dots.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void beside(Builder& b, const std::string& path, const std::vector<Value>& parts, Value out) {
  std::vector<int64_t> sizes;
  for (const Value part : parts) sizes.push_back(b.shape(part).back().value());
  b.call("concat_channels", path,
         {{"num_parts", static_cast<int64_t>(parts.size())},
          {"sizes", sizes},
          {"size", b.shape(out).back().value()},
          {"x", parts},
          {"out", out}});
}

void expand_dot_interaction(Builder& b, const Region& r) {
  const Value dense = r["dense"], sparse = r["sparse"], out = r["out"];
  const int64_t size = r.integer("size"), features = r.integer("num_sparse_features") + 1;
  const Expr batch = b.shape(dense)[0];
  const Value all = b.empty(b.dtype(dense), {batch, features * size});
  beside(b, r.path() + ".features", {dense, b.reshape(sparse, {batch, (features - 1) * size})},
         all);
  const Value dots =
      b.call("pairwise_dots", r.path() + ".dots", {{"x", b.reshape(all, {batch, features, size})}});
  beside(b, r.path() + ".out", {dense, dots}, out);
}

FK_BLOCK(dot_interaction, expand_dot_interaction);

}  // namespace
}  // namespace fk
