// SPDX-License-Identifier: Apache-2.0
// paged_attention: tasks of attention.hpp over the pages of each request. Decoding and prefill
// differ only in the number of tokens of a task.
#ifdef FK_CPU_OPS
#define FK_PAGED_ATTENTION_EDITION \
  3  // with the fields that the contract marks `since: 2` and `since: 3`
#include "fk/ops/paged_attention.h"
#include "attention_tasks.hpp"

namespace fk::cpu {

struct PagedAttentionOp {
  using op = fk::paged_attention;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CPU,
                                    FK_GRAPH_ALWAYS,       /*deterministic=*/1,
                                    /*batch_invariant=*/0, FK_ACCUMULATE_F32,
                                    /*side_streams=*/0,    /*sm_count=*/0,
                                    /*sm=*/nullptr};

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_paged(init, max, need);
  }
  PagedAttentionOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init),
        weights_(weights),
        tasks_(init.num_heads, init.num_kv_heads, init.head_dim, threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    tasks_.run_paged(args, ctx.scratch,
                     [&](const int32_t* start, int64_t keys, int64_t request, int64_t first,
                         int64_t tokens, int64_t head) {
                       AttentionTask a =
                           paged_task(init_, args, start, keys, request, first, tokens, head);
                       a.window = init_.window;
                       a.causal = static_cast<int>(init_.causal);
                       a.softcap = static_cast<float>(init_.softcap);
                       if (weights_.sinks.or_null)
                         a.sinks = data<float>(weights_.sinks) + head * a.group;
                       if (weights_.alibi_slopes.or_null)
                         a.slopes = data<float>(weights_.alibi_slopes) + head * a.group;
                       return a;
                     });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const AttentionTasks tasks_;
};
FK_OP(paged_attention, PagedAttentionOp);

}  // namespace fk::cpu
#endif
