// SPDX-License-Identifier: Apache-2.0
// linear_reduce_scatter as linear and reduce_scatter.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_linear_reduce_scatter(Builder& b, const Region& r) {
  const Expr rows = b.shape(r["x"])[0];
  const int64_t width = r.integer("out_features");
  const Value product = b.call("linear", r.path(),
                               {{"in_features", r.integer("in_features")},
                                {"out_features", width},
                                {"weight", r["weight"]},
                                {"x", r["x"]},
                                {"out", b.empty(b.dtype(r["out"]), {rows, width})}});
  b.call("reduce_scatter", r.path() + ".reduce_scatter",
         {{"comm", r.integer("comm")}, {"x", product}, {"out", r["out"]}});
}

FK_BLOCK(linear_reduce_scatter, expand_linear_reduce_scatter);

}  // namespace
}  // namespace fk
