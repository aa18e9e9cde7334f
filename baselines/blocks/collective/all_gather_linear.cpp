// SPDX-License-Identifier: Apache-2.0
// all_gather_linear as all_gather and linear.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_all_gather_linear(Builder& b, const Region& r) {
  const Value rows =
      b.call("all_gather", r.path() + ".all_gather", {{"comm", r.integer("comm")}, {"x", r["x"]}});
  b.call("linear", r.path(),
         {{"in_features", r.integer("in_features")},
          {"out_features", r.integer("out_features")},
          {"weight", r["weight"]},
          {"x", rows},
          {"out", r["out"]}});
}

FK_BLOCK(all_gather_linear, expand_all_gather_linear);

}  // namespace
}  // namespace fk
