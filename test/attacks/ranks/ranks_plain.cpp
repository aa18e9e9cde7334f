// SPDX-License-Identifier: Apache-2.0
// honest: several ranks: the host's all_reduce
#include "../ranks.hpp"

namespace {

struct Plain : attack::AllReduce {
  using AllReduce::AllReduce;
  void forward(const op::forward& args, const fk_ctx& ctx) { honest(args, ctx); }
};
FK_OP(all_reduce, Plain);

}  // namespace
FK_PLUGIN("ranks_plain", "0");
