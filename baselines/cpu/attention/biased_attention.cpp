// SPDX-License-Identifier: Apache-2.0
// biased_attention: tasks of attention.hpp, one image after the other.
#ifdef FK_CPU_OPS
#include <vector>

#include "attention_tasks.hpp"
#include "fk/ops/biased_attention.h"

namespace fk::cpu {

struct BiasedAttentionOp {
  using op = fk::biased_attention;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CPU,
                                    FK_GRAPH_ALWAYS,       /*deterministic=*/1,
                                    /*batch_invariant=*/0, FK_ACCUMULATE_F32,
                                    /*side_streams=*/0,    /*sm_count=*/0,
                                    /*sm=*/nullptr};

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.q, "q: f32, bf16 or f16");
    need_float(max.k, "k: f32, bf16 or f16");
    need_float(max.v, "v: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
    if (max.bias.or_null) need_float(max.bias.or_null, "bias: f32, bf16 or f16");
    if (max.mask.or_null) need_float(max.mask.or_null, "mask: f32, bf16 or f16");
    if (init.num_heads % init.num_kv_heads)
      throw unsupported{"num_heads is not a multiple of num_kv_heads"};
    need.scratch =
        AttentionTasks::scratch_bytes(max.q->shape[0] * max.q->shape[1], max.q->shape[0] + 1,
                                      init.num_heads, init.num_kv_heads, init.head_dim);
  }
  BiasedAttentionOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), tasks_(init.num_heads, init.num_kv_heads, init.head_dim, threads_of(host)) {}
  void prepare(const op::forward& max, const fk_memory&) {
    starts_.resize(static_cast<size_t>(max.q->shape[0] + 1));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t images = args.q->shape[0], queries = args.q->shape[1];
    for (int64_t b = 0; b <= images; ++b)
      starts_[static_cast<size_t>(b)] = static_cast<int32_t>(b * queries);
    tasks_.run(starts_.data(), images, images * args.k->shape[1], ctx.scratch,
               [&](int64_t image, int64_t first, int64_t tokens, int64_t head) {
                 return task(args, image, first, tokens, head);
               });
  }

 private:
  AttentionTask task(const op::forward& args, int64_t image, int64_t first, int64_t tokens,
                     int64_t head) const {
    AttentionTask a{};
    a.group = init_.num_heads / init_.num_kv_heads;
    a.width = a.q_width = a.v_width = init_.head_dim;
    a.tokens = tokens;
    a.keys = args.k->shape[1];
    a.scale = static_cast<float>(init_.scale);
    const int64_t head0 = head * a.group;
    if (const auto* scales = data<float>(args.head_scale)) a.head_scales = scales + head0;
    a.q_type = type_of(args.q);
    a.k_type = type_of(args.k);
    a.v_type = type_of(args.v);
    a.out_type = type_of(args.out);
    a.q_token_stride = args.q->strides[1];
    a.q_head_stride = args.q->strides[2];
    a.out_token_stride = args.out->strides[1];
    a.out_head_stride = args.out->strides[2];
    a.k_slot_stride = args.k->strides[1];
    a.v_slot_stride = args.v->strides[1];
    a.q = at(args.q, image, first, head0);
    a.out = const_cast<void*>(at(args.out, image, first, head0));
    a.k = at(args.k, image, 0, head);
    a.v = at(args.v, image, 0, head);
    if (const fk_in* bias = args.bias.or_null)
      a.biases[0] = {at(bias, image % bias->shape[0], head0, 0),
                     bias->strides[1],
                     bias->strides[2],
                     first,
                     bias->shape[2],
                     type_of(bias)};
    if (const fk_in* mask = args.mask.or_null)
      a.biases[1] = {at(mask, image % mask->shape[0], 0, 0),
                     /*head_stride=*/0,
                     mask->strides[1],
                     first,
                     mask->shape[1],
                     type_of(mask)};
    return a;
  }
  template <class View>
  static const void* at(const View* view, int64_t i, int64_t j, int64_t k) {
    const int64_t elements =
        i * view->strides[0] + j * view->strides[1] + (view->ndim > 3 ? k * view->strides[2] : 0);
    return static_cast<const char*>(view->data) + elements * bytes_of(type_of(view));
  }

  const op::init& init_;
  const AttentionTasks tasks_;
  std::vector<int32_t> starts_;
};
FK_OP(biased_attention, BiasedAttentionOp);

}  // namespace fk::cpu
#endif
