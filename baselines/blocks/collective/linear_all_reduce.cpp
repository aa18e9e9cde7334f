// SPDX-License-Identifier: Apache-2.0
// linear_all_reduce as linear and all_reduce.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_linear_all_reduce(Builder& b, const Region& r) {
  const Value product = b.call("linear", r.path(),
                               {{"in_features", r.integer("in_features")},
                                {"out_features", r.integer("out_features")},
                                {"weight", r["weight"]},
                                {"x", r["x"]},
                                {"out", b.empty(b.dtype(r["out"]), b.shape(r["out"]))}});
  b.call("all_reduce", r.path() + ".all_reduce",
         {{"comm", r.integer("comm")}, {"x", product}, {"out", r["out"]}});
}

FK_BLOCK(linear_all_reduce, expand_linear_all_reduce);

}  // namespace
}  // namespace fk
