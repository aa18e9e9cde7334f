// SPDX-License-Identifier: Apache-2.0
// mamba_block as rms_norm and mamba_mixer. `hidden` is read by the norm only, so the mixer writes
// its result there.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_mamba_block(Builder& b, const Region& r) {
  const Value x = r.call(b, "rms_norm", ".norm", {{"weight", r["input_norm"]}, {"x", r["hidden"]}});
  r.call(b, "mamba_mixer", ".mixer", {{"x", x}, {"out", r["hidden"]}});
}

FK_BLOCK(mamba_block, expand_mamba_block);

}  // namespace
}  // namespace fk
