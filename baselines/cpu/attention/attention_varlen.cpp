// SPDX-License-Identifier: Apache-2.0
// attention_varlen: tasks of attention.hpp over the keys of each request, which are adjacent in
// memory.
#ifdef FK_CPU_OPS
#define FK_ATTENTION_VARLEN_EDITION 2  // with the field that the contract marks `since: 2`
#include "fk/ops/attention_varlen.h"
#include "attention_tasks.hpp"

namespace fk::cpu {

struct AttentionVarlenOp {
  using op = fk::attention_varlen;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CPU,
                                    FK_GRAPH_ALWAYS,       /*deterministic=*/1,
                                    /*batch_invariant=*/0, FK_ACCUMULATE_F32,
                                    /*side_streams=*/0,    /*sm_count=*/0,
                                    /*sm=*/nullptr};

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(max.q, "q: f32, bf16 or f16");
    need_float(max.k, "k: f32, bf16 or f16");
    need_float(max.v, "v: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
    const fk_in* table = weights.distance_bias.or_null;
    if (table && table->shape[0] % 2 == 0)
      throw unsupported{"distance_bias: an odd number of rows"};
    need.scratch = AttentionTasks::scratch_bytes(max.q->shape[0], max.cu_seqlens_q->shape[0],
                                                 init.num_heads, init.num_kv_heads, init.head_dim);
  }
  AttentionVarlenOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init),
        weights_(weights),
        tasks_(init.num_heads, init.num_kv_heads, init.head_dim, threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const auto* starts = data<int32_t>(args.cu_seqlens_q);
    const auto* key_starts = data<int32_t>(args.cu_seqlens_k);
    const int64_t requests = args.cu_seqlens_q->shape[0] - 1;
    tasks_.run(starts, requests, args.k->shape[0], ctx.scratch,
               [&](int64_t request, int64_t first, int64_t tokens, int64_t head) {
                 return task(args, starts + request, key_starts + request, first, tokens, head);
               });
  }

 private:
  AttentionTask task(const op::forward& args, const int32_t* start, const int32_t* key_start,
                     int64_t first, int64_t tokens, int64_t head) const {
    AttentionTask a =
        query_task(init_, args, start, key_start[1] - key_start[0], first, tokens, head);
    a.window = init_.window;
    a.causal = init_.causal != 0;
    if (const fk_in* table = weights_.distance_bias.or_null) {
      a.distances = data<float>(table) + head * a.group;
      a.distance_rows = table->shape[0];
      a.distance_stride = table->shape[1];
    }
    a.k_type = type_of(args.k);
    a.v_type = type_of(args.v);
    a.k_slot_stride = args.k->strides[0];
    a.v_slot_stride = args.v->strides[0];
    a.k = data<char>(args.k) +
          (key_start[0] * a.k_slot_stride + head * args.k->strides[1]) * bytes_of(a.k_type);
    a.v = data<char>(args.v) +
          (key_start[0] * a.v_slot_stride + head * args.v->strides[1]) * bytes_of(a.v_type);
    return a;
  }

  const op::init& init_;
  const op::weights& weights_;
  const AttentionTasks tasks_;
};
FK_OP(attention_varlen, AttentionVarlenOp);

}  // namespace fk::cpu
#endif
