// SPDX-License-Identifier: Apache-2.0
// all_reduce_add_rms_norm as two steps, one after the other. A kernel for both is raced against it.
// The norm is a child, so the host's best provider computes it. The sum is rounded once more than
// in one kernel.
#include "fk/ops/all_reduce_add_rms_norm.h"
#include "fk/ops/rms_norm.h"
#include "ranked.cuh"

namespace fk::nccl {
namespace {

struct AllReduceAddRmsNorm : Base<all_reduce_add_rms_norm> {
  static constexpr fk_claims claims{FK_END(fk_claims, sm), kDevice, FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_REDUCED, 0, kSmCount, kSm};
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& wanted) {
    need_nccl(init.comm);
    wanted.scratch = max.x->nbytes;
  }
  AllReduceAddRmsNorm(const fk_host& host, const op::init& i, const op::weights& w)
      : Base(host, i, w), host_(host), weights_{{w.weight}}, norm_{{i.hidden_size, i.eps}} {}
  void prepare(const op::forward& max, const fk_memory&) {
    const View sum(max.x, nullptr, max.x->shape[0], init.hidden_size);
    norm_.prepare(host_, &weights_, {sum.in(), {max.residual}, max.out});
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const View sum(a.x, ctx.scratch, a.x->shape[0], init.hidden_size);
    must(init.comm, init.comm->all_reduce(init.comm, a.x, sum.out(), FK_SUM, ctx.stream));
    norm_.forward(host_, {sum.in(), {a.residual}, a.out}, ctx);
  }

 private:
  const fk_host& host_;
  const rms_norm::weights weights_;
  Child<rms_norm> norm_;
};
FK_OP(all_reduce_add_rms_norm, AllReduceAddRmsNorm);

}  // namespace
}  // namespace fk::nccl
