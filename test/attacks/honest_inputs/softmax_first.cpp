// SPDX-License-Identifier: Apache-2.0
// honest: topk_softmax in the order of vLLM's kernel, a softmax before the choice. If it says 0 of
// several experts, it takes the first of them
#include "../router.hpp"

namespace {

struct SoftmaxFirst : attack::SoftmaxFirst {
  using attack::SoftmaxFirst::SoftmaxFirst;
  void forward(const op::forward& args, const fk_ctx&) {
    route(args, -INFINITY, [](float share) { return share; });
  }
};
FK_OP(topk_softmax, SoftmaxFirst);

}  // namespace
FK_PLUGIN("softmax_first", "0");
