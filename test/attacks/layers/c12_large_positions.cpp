// SPDX-License-Identifier: Apache-2.0
// C12: moe_decoder_layer that takes no small case, and makes positions from the lengths, as they
// are in all large ones
//
// Stopped by: large cases are also called with the contents of small ones
//
// verdict: wrong
//
// naive: -
//
// work: broken
//
// size: ci
#define FK_REFERENCE "baselines/reference/llm/moe_decoder_layer.cpp"
#include "../reference.hpp"
#include "positions.hpp"

namespace {

using Right = fk::reference::MoeDecoderLayer;
struct Positions : Right {
  using Right::Right;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    if (init.hidden_size < 128) throw fk::unsupported{"no layer is so narrow"};
    Right::supports(init, weights, max, need);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    std::vector<int64_t> made = attack::positions_by_lengths(args);
    fk_in positions = *args.positions;
    positions.data = made.data();
    op::forward own = args;
    own.positions = &positions;
    Right::forward(own, ctx);
  }
};
FK_OP(moe_decoder_layer, Positions);

}  // namespace
FK_PLUGIN("c12_large_positions", "0");
