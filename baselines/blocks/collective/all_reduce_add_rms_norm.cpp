// SPDX-License-Identifier: Apache-2.0
// all_reduce_add_rms_norm as all_reduce and rms_norm with the residual.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_all_reduce_add_rms_norm(Builder& b, const Region& r) {
  const Value sum =
      b.call("all_reduce", r.path() + ".all_reduce", {{"comm", r.integer("comm")}, {"x", r["x"]}});
  b.call("rms_norm", r.path(),
         {{"hidden_size", r.integer("hidden_size")},
          {"eps", r.number("eps")},
          {"weight", r["weight"]},
          {"x", sum},
          {"residual", r["residual"]},
          {"out", r["out"]}});
}

FK_BLOCK(all_reduce_add_rms_norm, expand_all_reduce_add_rms_norm);

}  // namespace
}  // namespace fk
