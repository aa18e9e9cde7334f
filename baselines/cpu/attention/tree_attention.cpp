// SPDX-License-Identifier: Apache-2.0
// tree_attention: tasks of attention.hpp over the pages of each request. The tree's mask hides keys
// by a score of -infinity.
#ifdef FK_CPU_OPS
#include "fk/ops/tree_attention.h"
#include "attention_tasks.hpp"

namespace fk::cpu {

struct TreeAttentionOp {
  using op = fk::tree_attention;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CPU,
                                    FK_GRAPH_ALWAYS,       /*deterministic=*/1,
                                    /*batch_invariant=*/0, FK_ACCUMULATE_F32,
                                    /*side_streams=*/0,    /*sm_count=*/0,
                                    /*sm=*/nullptr};

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_paged(init, max, need);
  }
  TreeAttentionOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), tasks_(init.num_heads, init.num_kv_heads, init.head_dim, threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    tasks_.run_paged(args, ctx.scratch,
                     [&](const int32_t* start, int64_t keys, int64_t request, int64_t first,
                         int64_t tokens, int64_t head) {
                       AttentionTask a =
                           paged_task(init_, args, start, keys, request, first, tokens, head);
                       a.tree_first = keys - data<int32_t>(args.tree_lens)[request];
                       a.mask_stride = args.tree_mask->strides[0];
                       a.mask = data<int32_t>(args.tree_mask) + (start[0] + first) * a.mask_stride;
                       return a;
                     });
  }

 private:
  const op::init& init_;
  const AttentionTasks tasks_;
};
FK_OP(tree_attention, TreeAttentionOp);

}  // namespace fk::cpu
#endif
