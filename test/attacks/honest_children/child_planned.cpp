// SPDX-License-Identifier: Apache-2.0
// honest: encoder_attention made of children; its own attention_varlen uses only what its plan()
// wrote, so the parent's plan() must pass on what it was given
#define FK_REFERENCE "baselines/reference/attention/attention_varlen.cpp"
#include "../reference.hpp"
#include "children.hpp"
#define FK_ENCODER_ATTENTION_EDITION 1
#include "fk/ops/encoder_attention.h"
#include "fk/ops/linear.h"

namespace {

struct Planned : fk::reference::AttentionVarlen {
  using AttentionVarlen::AttentionVarlen;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    AttentionVarlen::supports(init, weights, max, need);
    need.plan = starts_bytes(max.cu_seqlens_q) + starts_bytes(max.cu_seqlens_k);
  }
  int64_t plan(const op::plan& step, void* blob, int64_t) {
    auto* to = static_cast<int32_t*>(blob);
    for (const fk_host_in* starts : {step.cu_seqlens_q, step.cu_seqlens_k})
      to = std::copy_n(fk::host<int32_t>(starts), starts->shape[0], to);
    return static_cast<std::byte*>(static_cast<void*>(to)) - static_cast<std::byte*>(blob);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    fk_in of_queries = *args.cu_seqlens_q, of_keys = *args.cu_seqlens_k;
    if (ctx.plan_bytes != of_queries.nbytes + of_keys.nbytes)
      throw std::runtime_error("nobody has planned this step");
    of_queries.data = ctx.plan;
    of_keys.data = static_cast<const std::byte*>(ctx.plan) + of_queries.nbytes;
    op::forward own = args;
    own.cu_seqlens_q = &of_queries, own.cu_seqlens_k = &of_keys;
    AttentionVarlen::forward(own, ctx);
  }

 private:
  static int64_t starts_bytes(const fk_in* starts) {
    return starts->shape[0] * static_cast<int64_t>(sizeof(int32_t));
  }
};
FK_OP(attention_varlen, Planned);

struct Parent {
  using op = fk::encoder_attention;
  static constexpr fk_claims claims = fk::cpu_claims;
  const attack::Children children;
  const op::init& init;
  const fk_linear_init in_init, out_init;
  const fk_linear_weights in_weights, out_weights;
  const fk_attention_varlen_init attention_init;
  fk_child *in = nullptr, *attention = nullptr, *out = nullptr;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need.scratch = max.x->shape[0] * 4 * init.num_heads * init.head_dim * (max.x->dtype.bits / 8);
  }
  Parent(const fk_host& h, const op::init& i, const op::weights& w)
      : children{h},
        init(i),
        in_init{i.hidden_size, 3 * i.num_heads * i.head_dim},
        out_init{i.num_heads * i.head_dim, i.hidden_size},
        in_weights{w.qkv, w.qkv_bias},
        out_weights{w.o, w.o_bias},
        attention_init{i.num_heads, i.num_heads, i.head_dim, i.scale, 0, 0} {}

  void prepare(const op::forward& max, const fk_memory&) {
    frames(max, nullptr, [&](const auto& first, const auto& middle, const auto& last) {
      in = children.make(fk_linear_contract, &in_init, &in_weights, &first);
      attention = children.make(fk_attention_varlen_contract, &attention_init, nullptr, &middle);
      out = children.make(fk_linear_contract, &out_init, &out_weights, &last);
    });
  }
  int64_t plan(const op::plan& step, void*, int64_t) {
    const fk_attention_varlen_plan starts{step.cu_seqlens, step.cu_seqlens};
    children.plan(attention, &starts);
    return 0;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    frames(args, ctx.scratch, [&](const auto& first, const auto& middle, const auto& last) {
      children.run(in, &first, ctx);
      children.run(attention, &middle, ctx);
      children.run(out, &last, ctx);
    });
  }

 private:
  // The three frames over `scratch`, which is null in prepare().
  template <class Use>
  void frames(const op::forward& args, void* scratch, Use use) {
    const int64_t tokens = args.x->shape[0], heads = init.num_heads, width = init.head_dim;
    const int64_t all = heads * width, bytes = args.x->dtype.bits / 8;
    const auto at = [&](int64_t element) {
      return scratch ? static_cast<std::byte*>(scratch) + element * bytes : nullptr;
    };
    const int64_t three[] = {tokens, 3 * all}, one[] = {tokens, heads, width},
                  flat[] = {tokens, all};
    fk_temp qkv, part[3], mixed, rows;
    const fk_out* projected = fk_temp_view(&qkv, args.x, at(0), 2, three);
    for (int64_t i = 0; i < 3; ++i) {
      fk_temp_view(&part[i], args.x, at(i * all), 3, one);
      part[i].dims[4] = 3 * all;  // the stride of tokens
      part[i].view.nbytes = tokens ? ((tokens - 1) * 3 + 1) * all * bytes : 0;
    }
    const fk_out *attended = fk_temp_view(&mixed, args.x, at(tokens * 3 * all), 3, one),
                 *again = fk_temp_view(&rows, args.x, at(tokens * 3 * all), 2, flat);
    use(fk_linear_forward{args.x, projected},
        fk_attention_varlen_forward{fk_as_in(&part[0].view), fk_as_in(&part[1].view),
                                    fk_as_in(&part[2].view), args.cu_seqlens, args.cu_seqlens,
                                    args.max_seqlen, args.max_seqlen, attended},
        fk_linear_forward{fk_as_in(again), args.out});
  }
};
FK_OP(encoder_attention, Parent);

}  // namespace
FK_PLUGIN("child_planned", "0");
