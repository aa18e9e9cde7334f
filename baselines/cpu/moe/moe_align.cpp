// SPDX-License-Identifier: Apache-2.0
// moe_align: a counting sort of the assignments by expert. Each thread counts a part, place() turns
// the counts into positions, then each thread writes its part. With few assignments one thread does
// all.
#ifdef FK_CPU_OPS
#include "fk/ops/moe_align.h"
#include "op.hpp"

namespace fk::cpu {

struct MoeAlignOp {
  using op = fk::moe_align;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward&,
                       fk_need& need) {
    need.scratch = threads_max() * padded(init.num_experts) * 4;
  }
  MoeAlignOp(const fk_host& host, const op::init& init, const op::weights&)
      : experts_(init.num_experts), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const auto* ids = data<int32_t>(args.topk_ids);
    auto* rows = data<int32_t>(args.row_ids);
    auto* offsets = data<int32_t>(args.expert_offsets);
    const int64_t count = args.row_ids->shape[0], stride = padded(experts_);
    auto* counts = static_cast<int32_t*>(ctx.scratch);
    const double ns = work_ns(count * 8);
    const int team = Team::size_for(threads_, count, ns);
    // Calls body for each part, with its counts and its range of assignments.
    const auto each_part = [&](const auto& body) {
      Team::run(team, team, [&](int64_t part, int) {
        body(counts + part * stride, count * part / team, count * (part + 1) / team);
      });
    };
    each_part([&](int32_t* own, int64_t begin, int64_t end) {
      std::fill_n(own, experts_, 0);
      for (int64_t i = begin; i < end; ++i) ++own[ids[i]];
    });
    offsets[experts_] = place(counts, stride, team, offsets);
    each_part([&](int32_t* own, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) rows[own[ids[i]]++] = static_cast<int32_t>(i);
    });
  }

 private:
  // Turns the counts of every part into the position of its first row of each expert. Sets the
  // offsets of the experts, and returns the total.
  int32_t place(int32_t* counts, int64_t stride, int64_t parts, int32_t* offsets) const {
    int32_t at = 0;
    for (int64_t e = 0; e < experts_; ++e) {
      offsets[e] = at;
      for (int64_t part = 0; part < parts; ++part) {
        const int32_t here = counts[part * stride + e];
        counts[part * stride + e] = at;
        at += here;
      }
    }
    return at;
  }

  const int64_t experts_;
  const int threads_;
};
FK_OP(moe_align, MoeAlignOp);

}  // namespace fk::cpu
#endif
