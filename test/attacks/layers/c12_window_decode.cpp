// SPDX-License-Identifier: Apache-2.0
// C12: decoder_layer with a window in decode alone: the keys of a prefill are all seen
//
// Stopped by: a small case has a window, a prefill and no optional fields
//
// verdict: wrong
//
// naive: -
//
// work: broken
#define FK_REFERENCE "baselines/reference/llm/decoder_layer.cpp"
#include "../reference.hpp"

namespace {

struct Window : attack::Otherwise<fk::reference::DecoderLayer> {
  using Otherwise::Otherwise;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    op::init own = init;
    if (args.max_query_len != 1) own.window = 0;
    as(own, weights, args, ctx);
  }
};
FK_OP(decoder_layer, Window);

}  // namespace
FK_PLUGIN("c12_window_decode", "0");
