// SPDX-License-Identifier: Apache-2.0
// sparse_mla_attention: attention of every head over the listed latents of its request.
#include "fk/ops/sparse_mla_attention.h"
#include "mla.hpp"

namespace fk::reference {
namespace {

struct SparseMlaAttention : Base<sparse_mla_attention> {
  using Base::Base;
  struct Rows {
    double *q, *out, *scores;
    int64_t* places;  // of the listed latents in the cache
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : q(s.take(i.kv_lora_rank + i.qk_rope_head_dim)),
          out(s.take(i.kv_lora_rank)),
          scores(s.take(args.topk_ids->shape[1])),
          places(reinterpret_cast<int64_t*>(s.take(args.topk_ids->shape[1]))) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.q_latent, max.q_pe, max.kv_cache, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init, args);
    for (int64_t b = 0; b < args.block_tables->shape[0]; ++b) {
      const int32_t* pages = data<int32_t>(args.block_tables) + offset(args.block_tables, b);
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      for (int64_t t = index<int32_t>(args.cu_seqlens, b); t < last; ++t) {
        const int64_t count = find_listed(args, t, pages, row.places);
        for (int64_t h = 0; h < init.num_heads; ++h) attend(args, row, t, h, count);
      }
    }
  }

 private:
  int64_t find_listed(const op::forward& args, int64_t t, const int32_t* pages,
                      int64_t* places) const {
    const int32_t* ids = data<int32_t>(args.topk_ids) + offset(args.topk_ids, t);
    int64_t count = 0;
    for (int64_t k = 0; k < args.topk_ids->shape[1]; ++k)
      if (ids[k] >= 0)
        places[count++] =
            offset(args.kv_cache, pages[ids[k] / init.page_size], ids[k] % init.page_size);
    return count;
  }
  void attend(const op::forward& args, const Rows& row, int64_t t, int64_t h, int64_t count) const {
    const int64_t latent = init.kv_lora_rank, rotary = init.qk_rope_head_dim;
    load(args.q_latent, offset(args.q_latent, t, h), latent, row.q);
    load(args.q_pe, offset(args.q_pe, t, h), rotary, row.q + latent);
    std::fill_n(row.out, latent, 0.0);
    Attention{init.scale}(
        0, count, row.scores,
        [&](int64_t j) { return dot_view(args.kv_cache, row.places[j], row.q, latent + rotary); },
        [&](int64_t j, double p) { add_scaled(args.kv_cache, row.places[j], latent, p, row.out); });
    store(args.out, offset(args.out, t, h), latent, row.out);
  }
};
FK_OP(sparse_mla_attention, SparseMlaAttention);

}  // namespace
}  // namespace fk::reference
