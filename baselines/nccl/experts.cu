// SPDX-License-Identifier: Apache-2.0
// moe_dispatch and moe_combine by NCCL's collectives, and fused_moe_ep as both with the products of
// experts between them, one after the other. Kernels which overlap these steps are raced against
// them. Products are children, so the host's best provider computes them.
#define FK_MOE_GROUPED_GEMM_EDITION 1
#include "fk/ops/fused_moe_ep.h"
#include "fk/ops/moe_combine.h"
#include "fk/ops/moe_dispatch.h"
#include "fk/ops/moe_grouped_gemm.h"
#include "fk/ops/silu_and_mul.h"
#include "letters.cuh"

namespace fk::nccl {
namespace {

constexpr fk_claims kExpertClaims = claims_of(FK_GRAPH_ALWAYS, 0);

template <class Init> void need_experts(const Init& init, int64_t tokens) {
  need_nccl(init.comm);
  need(tokens <= init.max_tokens_per_rank, "x: more rows than max_tokens_per_rank");
  need(init.hidden_size % 8 == 0, "hidden_size: a multiple of 8 only");
  need(int64_t(init.comm->size) * init.max_tokens_per_rank * init.top_k < 1 << 24, "choices of all ranks: fewer than 2^24");
}

struct MoeDispatch : Base<moe_dispatch> {
  using Base::Base;
  static constexpr fk_claims claims = kExpertClaims;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& wanted) {
    need_experts(init, max.x->shape[0]);
    const Spread s(init);
    wanted.scratch = Letters(s, s.width * (max.x->dtype.bits / 8)).scratch(s);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    dispatch_tokens(init.comm, Spread(init), a.x, a.topk_ids,
                    {a.recv_x->data, fk::data<int32_t>(a.recv_source), fk::data<int32_t>(a.row_ids), fk::data<int32_t>(a.expert_offsets), fk::data<int32_t>(a.recv_count)},
                    ctx.scratch, ctx);
  }
};

struct MoeCombine : Base<moe_combine> {
  using Base::Base;
  static constexpr fk_claims claims = kExpertClaims;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& wanted) {
    need_experts(init, max.out->shape[0]);
    wanted.scratch = Answers(Spread(init)).bytes;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    combine_answers(init.comm, Spread(init), {a.x, fk::data<int32_t>(a.source), fk::data<int32_t>(a.count)}, a.topk_ids, a.topk_weights, a.out, ctx.scratch, ctx);
  }
};

struct FusedMoeEp : Base<fused_moe_ep> {
  static constexpr fk_claims claims = kExpertClaims;
  // Scratch memory. Letters and answers do not exist at the same time.
  struct Places {
    int64_t letters, x, source, row_ids, offsets, count, both, activated, out, bytes;
    Places(const op::init& init, const fk_in* like) {
      const Spread s(init);
      const int64_t rows = s.rows_most(), width = like->dtype.bits / 8;
      letters = 0;
      x = letters + std::max(Letters(s, s.width * width).scratch(s), Answers(s).bytes);
      source = x + whole(rows * s.width * width);
      row_ids = source + whole(rows * 4);
      offsets = row_ids + whole(rows * 4);
      count = offsets + whole((s.local + 1) * 4);
      both = count + whole(4);
      activated = both + whole(rows * 2 * init.intermediate_size * width);
      out = activated + whole(rows * init.intermediate_size * width);
      bytes = out + whole(rows * s.width * width);
    }
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& wanted) {
    need_experts(init, max.x->shape[0]);
    wanted.scratch = Places(init, max.x).bytes;
  }
  FusedMoeEp(const fk_host& host, const op::init& i, const op::weights& w)
      : Base(host, i, w), host_(host), w13_{w.w13}, w2_{w.w2}, first_{{i.hidden_size, 2 * i.intermediate_size, Spread(i).local, 1}}, activation_{{i.intermediate_size}},
        second_{{i.intermediate_size, i.hidden_size, Spread(i).local, 1}} {}
  void prepare(const op::forward& max, const fk_memory&) {
    const Between between(*this, max, nullptr);
    first_.prepare(host_, &w13_, between.first());
    activation_.prepare(host_, nullptr, between.activation());
    second_.prepare(host_, &w2_, between.second());
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Spread s(init);
    const Between between(*this, a, static_cast<char*>(ctx.scratch));
    const auto numbers = [](const View& view) { return static_cast<int32_t*>(view.out()->data); };
    int32_t *const source = numbers(between.source), *const count = numbers(between.count);
    dispatch_tokens(init.comm, s, a.x, a.topk_ids, {between.x.out()->data, source, numbers(between.row_ids), numbers(between.offsets), count}, ctx.scratch, ctx);
    first_.forward(host_, between.first(), ctx);
    activation_.forward(host_, between.activation(), ctx);
    second_.forward(host_, between.second(), ctx);
    combine_answers(init.comm, s, {between.out.in(), source, count}, a.topk_ids, a.topk_weights, a.out, ctx.scratch, ctx);
  }

 private:
  // The steps between dispatch and combine, as frames of children.
  struct Between {
    const Places at;
    const int64_t rows;
    const View x, source, row_ids, offsets, count, both, activated, out;
    Between(const FusedMoeEp& op, const op::forward& a, char* base)
        : at(op.init, a.x), rows(Spread(op.init).rows_most()), x(a.x, place(base, at.x), rows, op.init.hidden_size), source(a.topk_ids, place(base, at.source), rows),
          row_ids(a.topk_ids, place(base, at.row_ids), rows), offsets(a.topk_ids, place(base, at.offsets), Spread(op.init).local + 1),
          count(a.topk_ids, place(base, at.count), 1), both(a.x, place(base, at.both), rows, 2 * op.init.intermediate_size),
          activated(a.x, place(base, at.activated), rows, op.init.intermediate_size), out(a.x, place(base, at.out), rows, op.init.hidden_size) {}
    static char* place(char* base, int64_t at) { return base ? base + at : nullptr; }
    fk_moe_grouped_gemm_forward first() const { return {x.in(), row_ids.in(), offsets.in(), both.out()}; }
    fk_silu_and_mul_forward activation() const { return {both.in(), activated.out()}; }
    fk_moe_grouped_gemm_forward second() const { return {activated.in(), row_ids.in(), offsets.in(), out.out()}; }
  };
  const fk_host& host_;
  const moe_grouped_gemm::weights w13_, w2_;
  Child<moe_grouped_gemm> first_;
  Child<silu_and_mul> activation_;
  Child<moe_grouped_gemm> second_;
};

FK_OP(moe_dispatch, MoeDispatch);
FK_OP(moe_combine, MoeCombine);
FK_OP(fused_moe_ep, FusedMoeEp);

}  // namespace
}  // namespace fk::nccl
