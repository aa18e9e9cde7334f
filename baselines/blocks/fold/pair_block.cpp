// SPDX-License-Identifier: Apache-2.0
// pair_block: four updates and a transition of pairs.
#include "baselines/blocks/fold/fold.hpp"

namespace fk {
namespace {

void expand_pair_block(Builder& b, const Region& r) {
  fold::update_pairs(b, r, "", r["z"], r["out"]);
}

FK_BLOCK(pair_block, expand_pair_block);

}  // namespace
}  // namespace fk
