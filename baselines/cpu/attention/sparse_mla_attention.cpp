// SPDX-License-Identifier: Apache-2.0
// sparse_mla_attention: a task of attention.hpp for each token and group of heads. Its keys are the
// listed slots, as pages of one slot. Slots are counted in the largest unit which divides both
// strides of the cache.
#ifdef FK_CPU_OPS
#include <algorithm>
#include <cstring>
#include <numeric>

#include "attention.hpp"
#include "fk/ops/sparse_mla_attention.h"
#include "op.hpp"

namespace fk::cpu {

struct SparseMlaAttentionOp {
  using op = fk::sparse_mla_attention;
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
    if (max.kv_cache->shape[0] * (max.kv_cache->strides[0] / unit_of(max.kv_cache)) > int64_t{1}
                                                                                          << 31)
      throw unsupported{"kv_cache: slots count within 31 bits"};
    const int64_t work = work_floats(init, head_groups(init.num_heads));
    need.scratch = threads_max() * (padded(max.topk_ids->shape[1]) + work) * 4;
  }
  SparseMlaAttentionOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init),
        groups_(head_groups(init.num_heads)),
        work_floats_(work_floats(init, groups_)),
        threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const auto* starts = data<int32_t>(args.cu_seqlens);
    const int64_t requests = args.block_tables->shape[0], listed = args.topk_ids->shape[1];
    const int64_t bytes = int64_t{starts[requests]} * listed * width() * init_.num_heads;
    share(threads_, starts[requests] * groups_, bytes, [&](int64_t item, int thread) {
      float* work = static_cast<float*>(ctx.scratch) + thread * (padded(listed) + work_floats_);
      run(args, item / groups_, item % groups_, reinterpret_cast<int32_t*>(work),
          work + padded(listed));
    });
  }

 private:
  int64_t width() const { return init_.kv_lora_rank + init_.qk_rope_head_dim; }
  static int64_t unit_of(const fk_in* cache) {
    return std::gcd(cache->strides[0], cache->strides[1]);
  }
  // The fewest equal groups of at most kQueryRows heads.
  static int64_t head_groups(int64_t heads) {
    int64_t groups = (heads + kQueryRows - 1) / kQueryRows;
    while (heads % groups != 0) ++groups;
    return groups;
  }
  static int64_t work_floats(const op::init& init, int64_t groups) {
    return padded(
        attention_floats(init.num_heads / groups, init.kv_lora_rank + init.qk_rope_head_dim));
  }
  static const char* row(const fk_in* view, int64_t token, int64_t head) {
    return data<char>(view) +
           (token * view->strides[0] + head * view->strides[1]) * view->dtype.bits / 8;
  }

  // Writes the slots of token t, counted through all pages, and returns their number.
  int64_t list(const op::forward& args, int64_t t, int32_t* slots) const {
    const auto* starts = data<int32_t>(args.cu_seqlens);
    const int64_t requests = args.block_tables->shape[0];
    const int64_t b = std::upper_bound(starts, starts + requests + 1, t) - starts - 1;
    const auto* pages = data<int32_t>(args.block_tables) + b * args.block_tables->strides[0];
    const auto* ids = data<int32_t>(args.topk_ids) + t * args.topk_ids->strides[0];
    const int64_t unit = unit_of(args.kv_cache), page = args.kv_cache->strides[0] / unit,
                  slot = args.kv_cache->strides[1] / unit;
    int64_t count = 0;
    for (int64_t k = 0; k < args.topk_ids->shape[1]; ++k)
      if (ids[k] >= 0)
        slots[count++] = static_cast<int32_t>(pages[ids[k] / init_.page_size] * page +
                                              ids[k] % init_.page_size * slot);
    return count;
  }

  void run(const op::forward& args, int64_t token, int64_t group, int32_t* slots,
           float* work) const {
    AttentionTask a{};
    a.group = init_.num_heads / groups_;
    a.width = width();
    a.q_width = a.v_width = init_.kv_lora_rank;
    a.tokens = 1;
    a.keys = list(args, token, slots);
    const int64_t head = group * a.group;
    a.out_type = type_of(args.out);
    a.out_token_stride = args.out->strides[0];
    a.out_head_stride = args.out->strides[1];
    a.out = const_cast<char*>(row(fk_as_in(args.out), token, head));
    if (a.keys == 0) {
      std::memset(a.out, 0, static_cast<size_t>(a.group * a.v_width * bytes_of(a.out_type)));
      return;
    }
    a.scale = static_cast<float>(init_.scale);
    a.q_type = type_of(args.q_latent);
    a.k_type = a.v_type = type_of(args.kv_cache);
    a.q_token_stride = args.q_latent->strides[0];
    a.q_head_stride = args.q_latent->strides[1];
    a.q_tail_token_stride = args.q_pe->strides[0];
    a.q_tail_head_stride = args.q_pe->strides[1];
    a.q = row(args.q_latent, token, head);
    a.q_tail = row(args.q_pe, token, head);
    a.pages = slots;
    a.page_size = 1;
    a.k = a.v = args.kv_cache->data;
    a.k_page_stride = a.v_page_stride = unit_of(args.kv_cache);
    a.k_slot_stride = a.v_slot_stride = args.kv_cache->strides[1];
    kernel_(a, work);
  }

  const op::init& init_;
  const int64_t groups_, work_floats_;
  const int threads_;
  decltype(&generic::attention_task) kernel_ = FK_CPU_PICK(attention_task);
};
FK_OP(sparse_mla_attention, SparseMlaAttentionOp);

}  // namespace fk::cpu
#endif
