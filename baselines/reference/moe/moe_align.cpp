// SPDX-License-Identifier: Apache-2.0
// moe_align: sorts the assignments by expert; those of one expert keep their order. It passes over
// all of them once per expert.
#include "fk/ops/moe_align.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct MoeAlign : Base<moe_align> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    int32_t* rows = data<int32_t>(args.row_ids);
    int32_t* offsets = data<int32_t>(args.expert_offsets);
    const int64_t assignments = args.row_ids->shape[0];
    int32_t count = 0;
    for (int64_t e = 0; e < init.num_experts; ++e) {
      offsets[e] = count;
      for (int64_t j = 0; j < assignments; ++j)
        if (index<int32_t>(args.topk_ids, j) == e) rows[count++] = static_cast<int32_t>(j);
    }
    offsets[init.num_experts] = count;
  }
};
FK_OP(moe_align, MoeAlign);

}  // namespace
}  // namespace fk::reference
