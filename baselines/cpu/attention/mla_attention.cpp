// SPDX-License-Identifier: Apache-2.0
// mla_attention: tasks of attention.hpp whose values are the first columns of their keys. All heads
// share the latents. If a token has more heads than a task has rows, they are divided into groups.
#ifdef FK_CPU_OPS
#include "fk/ops/mla_attention.h"
#include "attention_tasks.hpp"

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
    need_float(max.q_latent, "q_latent: f32, bf16 or f16");
    need_float(max.kv_cache, "kv_cache: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch =
        AttentionTasks::scratch_bytes(max.q_latent->shape[0], max.seq_lens->shape[0],
                                      init.num_heads, head_groups(init.num_heads), width(init));
  }
  MlaAttentionOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init),
        groups_(head_groups(init.num_heads)),
        tasks_(init.num_heads, groups_, width(init), threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    tasks_.run_paged(args, ctx.scratch, [&](auto... where) { return task(args, where...); });
  }

 private:
  static int64_t width(const op::init& init) { return init.kv_lora_rank + init.qk_rope_head_dim; }
  // The fewest equal groups of at most kQueryRows heads.
  static int64_t head_groups(int64_t heads) {
    int64_t groups = (heads + kQueryRows - 1) / kQueryRows;
    while (heads % groups != 0) ++groups;
    return groups;
  }

  AttentionTask task(const op::forward& args, const int32_t* start, int64_t keys, int64_t request,
                     int64_t first, int64_t tokens, int64_t group) const {
    AttentionTask a{};
    a.group = init_.num_heads / groups_;
    a.width = width(init_);
    a.q_width = a.v_width = init_.kv_lora_rank;
    a.tokens = tokens;
    a.keys = keys;
    a.position = keys - (start[1] - start[0]) + first;
    a.causal = 1;
    a.scale = static_cast<float>(init_.scale);
    a.q_type = type_of(args.q_latent);
    a.k_type = a.v_type = type_of(args.kv_cache);
    a.out_type = type_of(args.out);
    a.q_token_stride = args.q_latent->strides[0];
    a.q_head_stride = args.q_latent->strides[1];
    a.q_tail_token_stride = args.q_pe->strides[0];
    a.q_tail_head_stride = args.q_pe->strides[1];
    a.out_token_stride = args.out->strides[0];
    a.out_head_stride = args.out->strides[1];
    const int64_t token = start[0] + first, head = group * a.group;
    a.q = row(args.q_latent, token, head);
    a.q_tail = row(args.q_pe, token, head);
    a.out = const_cast<char*>(row(fk_as_in(args.out), token, head));
    a.pages = data<int32_t>(args.block_tables) + request * args.block_tables->strides[0];
    a.page_size = init_.page_size;
    a.k = a.v = args.kv_cache->data;
    a.k_page_stride = a.v_page_stride = args.kv_cache->strides[0];
    a.k_slot_stride = a.v_slot_stride = args.kv_cache->strides[1];
    return a;
  }
  static const char* row(const fk_in* view, int64_t token, int64_t head) {
    return data<char>(view) +
           (token * view->strides[0] + head * view->strides[1]) * view->dtype.bits / 8;
  }

  const op::init& init_;
  const int64_t groups_;
  const AttentionTasks tasks_;
};
FK_OP(mla_attention, MlaAttentionOp);

}  // namespace fk::cpu
#endif
