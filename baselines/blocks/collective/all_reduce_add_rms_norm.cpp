// SPDX-License-Identifier: Apache-2.0
// all_reduce_add_rms_norm as all_reduce and rms_norm with the residual.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_all_reduce_add_rms_norm(Builder& b, const Region& r) {
  const Value sum = r.call(b, "all_reduce", ".all_reduce", {{"x", r["x"]}});
  r.call(b, "rms_norm", "", {{"x", sum}, {"out", r["out"]}});
}

FK_BLOCK(all_reduce_add_rms_norm, expand_all_reduce_add_rms_norm);

}  // namespace
}  // namespace fk
