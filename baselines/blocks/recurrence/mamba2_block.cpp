// SPDX-License-Identifier: Apache-2.0
// mamba2_block as rms_norm and mamba_mixer2. `hidden` is read by the norm only, so the mixer writes
// its result there.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_mamba2_block(Builder& b, const Region& r) {
  const Value x = r.call(b, "rms_norm", ".norm", {{"weight", r["input_norm"]}, {"x", r["hidden"]}});
  r.call(b, "mamba_mixer2", ".mixer", {{"x", x}, {"out", r["hidden"]}});
}

FK_BLOCK(mamba2_block, expand_mamba2_block);

}  // namespace
}  // namespace fk
