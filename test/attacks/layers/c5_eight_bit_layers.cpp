// SPDX-License-Identifier: Apache-2.0
// C5: decode_step with all of its matrices in eight bits, a scale for every 128 columns
//
// Stopped by: the errors as a whole are no larger than those of storing what lies between the parts
//
// verdict: wrong
//
// naive: -
//
// work: broken
//
// size: ci
#define FK_REFERENCE "baselines/reference/llm/decode_step.cpp"
#include "../reference.hpp"

#include "../changed_view.hpp"

namespace {

constexpr size_t kGroup = 128;

struct EightBits : attack::Otherwise<fk::reference::DecodeStep> {
  using Otherwise::Otherwise;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    DecodeStep::supports(init, weights, max, need);
    if (FK_DTYPE(weights.qkv->at[0]) != FK_BF16 || init.hidden_size % 64)
      throw fk::unsupported{"bf16 of whole tiles only"};
  }
  struct List {
    std::vector<attack::Changed> weights;
    std::vector<const fk_in*> at;
    fk_in_list view;
    explicit List(const fk_in_list* from) {
      for (int64_t i = 0; i < from->n; ++i)
        weights.push_back(attack::eight_bits(from->at[i], kGroup));
      for (const auto& w : weights) at.push_back(w.view());
      view = {from->n, at.data()};
    }
  };
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const List qkv(weights.qkv), o(weights.o), gate_up(weights.gate_up), down(weights.down);
    const attack::Changed lm_head = attack::eight_bits(weights.lm_head, kGroup);
    op::weights own = weights;
    own.lm_head = lm_head.view();
    own.qkv = &qkv.view;
    own.o = &o.view;
    own.gate_up = &gate_up.view;
    own.down = &down.view;
    as(init, own, args, ctx);
  }
};
FK_OP(decode_step, EightBits);

}  // namespace
FK_PLUGIN("c5_eight_bit_layers", "0");
