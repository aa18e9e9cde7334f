// SPDX-License-Identifier: Apache-2.0
// Common parts of attention over latents (mla_attention, sparse_mla_attention). All heads share the
// latents, whose first columns are the values. If a token has more heads than a task has rows, they
// are divided into groups.
#pragma once
#include "attention.hpp"
#include "op.hpp"

namespace fk::cpu {

template <class Init>
int64_t latent_width(const Init& init) {
  return init.kv_lora_rank + init.qk_rope_head_dim;
}

// The fewest equal groups of at most kQueryRows heads.
inline int64_t latent_head_groups(int64_t heads) {
  int64_t groups = (heads + kQueryRows - 1) / kQueryRows;
  while (heads % groups != 0) ++groups;
  return groups;
}

template <class Forward>
void need_latents(const Forward& max) {
  need_float(max.q_latent, "q_latent: f32, bf16 or f16");
  need_float(max.kv_cache, "kv_cache: f32, bf16 or f16");
  need_float(max.out, "out: f32, bf16 or f16");
}

// The task of `tokens` tokens from `token` on and of one of `groups` groups of heads. The caller
// adds the keys and their pages.
template <class Init, class Forward>
AttentionTask latent_task(const Init& init, const Forward& args, int64_t groups, int64_t token,
                          int64_t tokens, int64_t group) {
  AttentionTask a{};
  a.group = init.num_heads / groups;
  a.width = latent_width(init);
  a.q_width = a.v_width = init.kv_lora_rank;
  a.tokens = tokens;
  a.scale = static_cast<float>(init.scale);
  a.q_type = type_of(args.q_latent);
  a.k_type = a.v_type = type_of(args.kv_cache);
  a.out_type = type_of(args.out);
  a.q_token_stride = args.q_latent->strides[0];
  a.q_head_stride = args.q_latent->strides[1];
  a.q_tail_token_stride = args.q_pe->strides[0];
  a.q_tail_head_stride = args.q_pe->strides[1];
  a.out_token_stride = args.out->strides[0];
  a.out_head_stride = args.out->strides[1];
  const auto row = [&](const fk_in* view) {
    const int64_t at = token * view->strides[0] + group * a.group * view->strides[1];
    return data<char>(view) + at * view->dtype.bits / 8;
  };
  a.q = row(args.q_latent);
  a.q_tail = row(args.q_pe);
  a.out = const_cast<char*>(row(fk_as_in(args.out)));
  a.k = a.v = args.kv_cache->data;
  a.k_slot_stride = a.v_slot_stride = args.kv_cache->strides[1];
  return a;
}

}  // namespace fk::cpu
