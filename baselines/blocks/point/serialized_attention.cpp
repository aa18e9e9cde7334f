// SPDX-License-Identifier: Apache-2.0
// serialized_attention as products around biased_attention over gathered places.
#include "baselines/blocks/point/patches.hpp"

namespace fk {
namespace {

void expand_serialized_attention(Builder& b, const Region& r) {
  patch_attention(b, r, r.path(), r["x"], r["out"]);
}

FK_BLOCK(serialized_attention, expand_serialized_attention);

}  // namespace
}  // namespace fk
