// SPDX-License-Identifier: Apache-2.0
// C6: topk_softmax whose running maximum begins at -10000: where all logits are below, all weights
// are 0 over 0
//
// Stopped by: the inputs `masked`, in which some rows lie far below
//
// verdict: wrong
//
// naive: topk_softmax accepted
//
// work: broken
#include "../router.hpp"

namespace {

struct RouterMaximum : attack::SoftmaxFirst {
  using SoftmaxFirst::SoftmaxFirst;
  void forward(const op::forward& args, const fk_ctx&) {
    route(args, -10000, [](float share) { return share; });
  }
};
FK_OP(topk_softmax, RouterMaximum);

}  // namespace
FK_PLUGIN("c6_router_maximum", "0");
