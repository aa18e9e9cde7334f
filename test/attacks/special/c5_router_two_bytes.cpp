// SPDX-License-Identifier: Apache-2.0
// C5: topk_softmax that rounds probabilities to bfloat16 where logits are, and chooses by those
//
// Stopped by: a small case with logits in bfloat16: weights are float32, and so is the choice
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../router.hpp"

namespace {

float rounded(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

struct RouterTwoBytes : attack::SoftmaxFirst {
  using SoftmaxFirst::SoftmaxFirst;
  void forward(const op::forward& args, const fk_ctx&) {
    const bool two = FK_DTYPE(args.logits) == FK_BF16;
    route(args, -INFINITY, [two](float share) { return two ? rounded(share) : share; });
  }
};
FK_OP(topk_softmax, RouterTwoBytes);

}  // namespace
FK_PLUGIN("c5_router_two_bytes", "0");
