// SPDX-License-Identifier: Apache-2.0
// lightgcn_propagation as products with the sparse matrix, and a sum which grows by each.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_lightgcn_propagation(Builder& b, const Region& r) {
  const int64_t layers = r.integer("num_layers");
  const double share = 1.0 / static_cast<double>(layers + 1);
  Value x = r["x"];
  Value sum = b.call("scaled_add", r.path() + ".sum.0", {{"scale", share}, {"y", x}});
  for (int64_t l = 0; l < layers; ++l) {
    const std::string at = std::to_string(l + 1);
    x = b.call("spmm_csr", r.path() + ".convs." + std::to_string(l),
               {{"indptr", r["indptr"]},
                {"indices", r["indices"]},
                {"values", r["values"]},
                {"x", x},
                {"num_rows", r.integer("num_rows")},
                {"out", b.empty(b.dtype(x), b.shape(x))}});
    b.tap("hidden." + at, {x});
    const Value out = l + 1 == layers ? r["out"] : b.empty(b.dtype(x), b.shape(x));
    b.call("scaled_add", r.path() + ".sum." + at,
           {{"scale", share}, {"x", sum}, {"y", x}, {"out", out}});
    sum = out;
  }
}

FK_BLOCK(lightgcn_propagation, expand_lightgcn_propagation);

}  // namespace
}  // namespace fk
