// SPDX-License-Identifier: Apache-2.0
// C12: decoder_layer that writes the key and value of a token without a slot (-1) to the first
// slot, which is somebody else's
//
// Stopped by: a small case has tokens without a slot
//
// verdict: wrong violation
//
// naive: -
//
// work: broken
#include <algorithm>
#include <vector>
#define FK_REFERENCE "baselines/reference/llm/decoder_layer.cpp"
#include "../reference.hpp"

namespace {

struct Slot : fk::reference::DecoderLayer {
  using DecoderLayer::DecoderLayer;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    std::vector<int64_t> made;
    const auto* slots = fk::data<int64_t>(args.slot_mapping);
    for (int64_t t = 0; t < args.slot_mapping->shape[0]; ++t)
      made.push_back(std::max<int64_t>(0, slots[t]));
    fk_in slot_mapping = *args.slot_mapping;
    slot_mapping.data = made.data();
    op::forward own = args;
    own.slot_mapping = &slot_mapping;
    DecoderLayer::forward(own, ctx);
  }
};
FK_OP(decoder_layer, Slot);

}  // namespace
FK_PLUGIN("c12_no_slot", "0");
