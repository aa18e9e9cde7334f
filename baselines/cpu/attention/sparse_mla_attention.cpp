// SPDX-License-Identifier: Apache-2.0
// sparse_mla_attention: a task over latents (latents.hpp) for each token and group of heads. Its
// keys are the listed slots, as pages of one slot. Slots are counted in the largest unit which
// divides both strides of the cache.
#ifdef FK_CPU_OPS
#include <algorithm>
#include <cstring>
#include <numeric>

#include "fk/ops/sparse_mla_attention.h"
#include "latents.hpp"

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
    need_latents(max);
    if (max.kv_cache->shape[0] * (max.kv_cache->strides[0] / unit_of(max.kv_cache)) > int64_t{1}
                                                                                          << 31)
      throw unsupported{"kv_cache: slots count within 31 bits"};
    const int64_t work = work_floats(init, latent_head_groups(init.num_heads));
    need.scratch = threads_max() * (padded(max.topk_ids->shape[1]) + work) * 4;
  }
  SparseMlaAttentionOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init),
        groups_(latent_head_groups(init.num_heads)),
        work_floats_(work_floats(init, groups_)),
        threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const auto* starts = data<int32_t>(args.cu_seqlens);
    const int64_t requests = args.block_tables->shape[0], listed = args.topk_ids->shape[1];
    const int64_t bytes =
        int64_t{starts[requests]} * listed * latent_width(init_) * init_.num_heads;
    share(threads_, starts[requests] * groups_, bytes, [&](int64_t item, int thread) {
      float* work = static_cast<float*>(ctx.scratch) + thread * (padded(listed) + work_floats_);
      run(args, item / groups_, item % groups_, reinterpret_cast<int32_t*>(work),
          work + padded(listed));
    });
  }

 private:
  static int64_t unit_of(const fk_in* cache) {
    return std::gcd(cache->strides[0], cache->strides[1]);
  }
  static int64_t work_floats(const op::init& init, int64_t groups) {
    return padded(attention_floats(init.num_heads / groups, latent_width(init)));
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
    AttentionTask a = latent_task(init_, args, groups_, token, /*tokens=*/1, group);
    a.keys = list(args, token, slots);
    if (a.keys == 0) {
      std::memset(a.out, 0, static_cast<size_t>(a.group * a.v_width * bytes_of(a.out_type)));
      return;
    }
    a.pages = slots;
    a.page_size = 1;
    a.k_page_stride = a.v_page_stride = unit_of(args.kv_cache);
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
