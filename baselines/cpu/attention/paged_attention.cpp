// SPDX-License-Identifier: Apache-2.0
// paged_attention: tasks of attention.hpp over the pages of each request; decoding and chunks of
// prompts differ only in how many tokens a task has.
#ifdef FK_CPU_OPS
#define FK_PAGED_ATTENTION_EDITION 2
#include "fk/ops/paged_attention.h"
#include "attention_tasks.hpp"

namespace fk::cpu {

struct PagedAttentionOp {
  using op = fk::paged_attention;
  static constexpr fk_claims claims{
      FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_F32, 0, 0, nullptr};

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.q, "q: f32, bf16 or f16");
    need_float(max.k_cache, "k_cache: f32, bf16 or f16");
    need_float(max.v_cache, "v_cache: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch = AttentionTasks::scratch_bytes(max.q->shape[0], max.seq_lens->shape[0],
                                                 init.num_heads, init.num_kv_heads, init.head_dim);
  }
  PagedAttentionOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init),
        weights_(weights),
        tasks_(init.num_heads, init.num_kv_heads, init.head_dim, threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const auto* starts = data<int32_t>(args.cu_seqlens);
    const auto* lengths = data<int32_t>(args.seq_lens);
    const int64_t requests = args.seq_lens->shape[0];
    int64_t keys = 0;
    for (int64_t b = 0; b < requests; ++b) keys += lengths[b];
    tasks_.run(starts, requests, keys, ctx.scratch,
               [&](int64_t request, int64_t first, int64_t tokens, int64_t head) {
                 return task(args, starts + request, lengths[request], request, first, tokens,
                             head);
               });
  }

 private:
  AttentionTask task(const op::forward& args, const int32_t* start, int64_t keys, int64_t request,
                     int64_t first, int64_t tokens, int64_t head) const {
    AttentionTask a{};
    a.group = init_.num_heads / init_.num_kv_heads;
    a.width = a.q_width = a.v_width = init_.head_dim;
    a.tokens = tokens;
    a.keys = keys;
    a.position = keys - (start[1] - start[0]) + first;
    a.window = init_.window;
    a.causal = static_cast<int>(init_.causal);
    a.scale = static_cast<float>(init_.scale);
    a.softcap = static_cast<float>(init_.softcap);
    if (weights_.sinks.or_null) a.sinks = data<float>(weights_.sinks) + head * a.group;
    a.q_type = type_of(args.q);
    a.k_type = type_of(args.k_cache);
    a.v_type = type_of(args.v_cache);
    a.out_type = type_of(args.out);
    a.q_token_stride = args.q->strides[0];
    a.q_head_stride = args.q->strides[1];
    a.out_token_stride = args.out->strides[0];
    a.out_head_stride = args.out->strides[1];
    const int64_t token = start[0] + first, head0 = head * a.group;
    a.q = data<char>(args.q) +
          (token * a.q_token_stride + head0 * a.q_head_stride) * bytes_of(a.q_type);
    a.out = data<char>(args.out) +
            (token * a.out_token_stride + head0 * a.out_head_stride) * bytes_of(a.out_type);
    a.pages = data<int32_t>(args.block_tables) + request * args.block_tables->strides[0];
    a.page_size = init_.page_size;
    a.k = data<char>(args.k_cache) + head * args.k_cache->strides[2] * bytes_of(a.k_type);
    a.v = data<char>(args.v_cache) + head * args.v_cache->strides[2] * bytes_of(a.v_type);
    a.k_page_stride = args.k_cache->strides[0];
    a.k_slot_stride = args.k_cache->strides[1];
    a.v_page_stride = args.v_cache->strides[0];
    a.v_slot_stride = args.v_cache->strides[1];
    return a;
  }

  const op::init& init_;
  const op::weights& weights_;
  const AttentionTasks tasks_;
};
FK_OP(paged_attention, PagedAttentionOp);

}  // namespace fk::cpu
#endif
