// SPDX-License-Identifier: Apache-2.0
// mla_attention: tasks of attention.hpp over latents (latents.hpp), whose pages the requests have.
#ifdef FK_CPU_OPS
#include "fk/ops/mla_attention.h"
#include "attention_tasks.hpp"
#include "latents.hpp"

namespace fk::cpu {

struct MlaAttentionOp {
  using op = fk::mla_attention;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CPU,
                                    FK_GRAPH_ALWAYS,       /*deterministic=*/1,
                                    /*batch_invariant=*/0, FK_ACCUMULATE_F32,
                                    /*side_streams=*/0,    /*sm_count=*/0,
                                    /*sm=*/nullptr};

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_latents(max);
    need.scratch = AttentionTasks::scratch_bytes(max.q_latent->shape[0], max.seq_lens->shape[0],
                                                 init.num_heads, latent_head_groups(init.num_heads),
                                                 latent_width(init));
  }
  MlaAttentionOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init),
        groups_(latent_head_groups(init.num_heads)),
        tasks_(init.num_heads, groups_, latent_width(init), threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    tasks_.run_paged(args, ctx.scratch, [&](auto... where) { return task(args, where...); });
  }

 private:
  AttentionTask task(const op::forward& args, const int32_t* start, int64_t keys, int64_t request,
                     int64_t first, int64_t tokens, int64_t group) const {
    AttentionTask a = latent_task(init_, args, groups_, start[0] + first, tokens, group);
    a.keys = keys;
    a.position = keys - (start[1] - start[0]) + first;
    a.causal = 1;
    a.pages = data<int32_t>(args.block_tables) + request * args.block_tables->strides[0];
    a.page_size = init_.page_size;
    a.k_page_stride = a.v_page_stride = args.kv_cache->strides[0];
    return a;
  }

  const op::init& init_;
  const int64_t groups_;
  const AttentionTasks tasks_;
};
FK_OP(mla_attention, MlaAttentionOp);

}  // namespace fk::cpu
#endif
