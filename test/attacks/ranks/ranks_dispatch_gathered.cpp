// SPDX-License-Identifier: Apache-2.0
// honest: several ranks: moe_dispatch by an all_gather of all tokens, of which a rank takes its own
#define FK_REFERENCE "baselines/reference/moe/moe_dispatch.cpp"
#include "../sham.hpp"

namespace {

using Gathered = attack::Over<fk::reference::MoeDispatch, attack::Others::apart>;
FK_OP(moe_dispatch, Gathered);

}  // namespace
FK_PLUGIN("ranks_dispatch_gathered", "0");
