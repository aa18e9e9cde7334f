// SPDX-License-Identifier: Apache-2.0
// C6: mla_moe_decoder_layer that keeps the scales of its experts' blocks in fixed point with 22
// bits of fraction. Near 0.01 this is as exact as a layer, but a model's scales are far smaller
//
// Stopped by: a small case whose scales are as small as a model's
//
// verdict: wrong
//
// naive: -
//
// work: broken
#define FK_REFERENCE "baselines/reference/llm/mla_moe_decoder_layer.cpp"
#include "../reference.hpp"

#include "../changed_view.hpp"

namespace {

struct FixedScales : attack::Otherwise<fk::reference::MlaMoeDecoderLayer> {
  using Otherwise::Otherwise;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    MlaMoeDecoderLayer::supports(init, weights, max, need);
    if (init.quantize_input) throw fk::unsupported{"rows as they are"};
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    op::weights own = weights;
    std::vector<attack::Changed> kept;
    kept.reserve(2);
    for (fk_opt_in* scale : {&own.w13_scale_inv, &own.shared_gate_up_scale_inv}) {
      if (!scale->or_null) continue;
      attack::Changed& fixed = kept.emplace_back(scale->or_null);
      for (float& v : fixed.values()) v = std::nearbyint(v * 0x1p22f) * 0x1p-22f;
      scale->or_null = fixed.view();
    }
    as(init, own, args, ctx);
  }
};
FK_OP(mla_moe_decoder_layer, FixedScales);

}  // namespace
FK_PLUGIN("c6_small_scales", "0");
