// SPDX-License-Identifier: Apache-2.0
// mla_attention: attention of every head over the cached latents of its request (LatentRequest in
// mla.hpp).
#include "fk/ops/mla_attention.h"
#include "mla.hpp"

namespace fk::reference {
namespace {

struct MlaAttention : Base<mla_attention> {
  using Base::Base;
  struct Rows {
    double *q, *out, *scores;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : q(s.take(i.kv_lora_rank + i.qk_rope_head_dim)),
          out(s.take(i.kv_lora_rank)),
          scores(s.take(args.block_tables->shape[1] * i.page_size)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.q_latent, max.q_pe, max.kv_cache, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init, args);
    const int64_t latent = init.kv_lora_rank, rotary = init.qk_rope_head_dim;
    for (int64_t b = 0; b < args.block_tables->shape[0]; ++b) {
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      const int64_t length = index<int32_t>(args.seq_lens, b);
      const LatentRequest request{args.kv_cache,
                                  data<int32_t>(args.block_tables) + offset(args.block_tables, b),
                                  init.page_size};
      for (int64_t t = index<int32_t>(args.cu_seqlens, b); t < last; ++t) {
        for (int64_t h = 0; h < init.num_heads; ++h) {
          load(args.q_latent, offset(args.q_latent, t, h), latent, row.q);
          load(args.q_pe, offset(args.q_pe, t, h), rotary, row.q + latent);
          request.attend(init.scale, row.q, latent, latent + rotary, length - last + t, row.scores,
                         row.out);
          store(args.out, offset(args.out, t, h), latent, row.out);
        }
      }
    }
  }
};
FK_OP(mla_attention, MlaAttention);

}  // namespace
}  // namespace fk::reference
