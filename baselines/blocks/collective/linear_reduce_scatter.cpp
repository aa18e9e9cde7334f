// SPDX-License-Identifier: Apache-2.0
// linear_reduce_scatter as linear and reduce_scatter.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_linear_reduce_scatter(Builder& b, const Region& r) {
  const Dims shape{b.shape(r["x"])[0], r.integer("out_features")};
  const Value product = r.call(b, "linear", "", {{"out", b.empty(b.dtype(r["out"]), shape)}});
  r.call(b, "reduce_scatter", ".reduce_scatter", {{"x", product}, {"out", r["out"]}});
}

FK_BLOCK(linear_reduce_scatter, expand_linear_reduce_scatter);

}  // namespace
}  // namespace fk
