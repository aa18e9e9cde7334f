// SPDX-License-Identifier: Apache-2.0
// all_gather_linear as all_gather and linear.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_all_gather_linear(Builder& b, const Region& r) {
  const Value rows = r.call(b, "all_gather", ".all_gather", {{"x", r["x"]}});
  r.call(b, "linear", "", {{"x", rows}, {"out", r["out"]}});
}

FK_BLOCK(all_gather_linear, expand_all_gather_linear);

}  // namespace
}  // namespace fk
