// SPDX-License-Identifier: Apache-2.0
// linear_all_reduce as linear and all_reduce.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_linear_all_reduce(Builder& b, const Region& r) {
  const Value product =
      r.call(b, "linear", "", {{"out", b.empty(b.dtype(r["out"]), b.shape(r["out"]))}});
  r.call(b, "all_reduce", ".all_reduce", {{"x", product}, {"out", r["out"]}});
}

FK_BLOCK(linear_all_reduce, expand_linear_all_reduce);

}  // namespace
}  // namespace fk
