// SPDX-License-Identifier: Apache-2.0
// Grouped products with weights of eight bits and a scale for every block (DeepSeek) or of four bits and a power of two for
// every 32 (gpt-oss), for rows of bfloat16. Few rows meet an expert in decode, so what counts is that its weights are read
// once at the speed of memory.
#include "clusters.cuh"
#include "fk/ops/moe_grouped_gemm_fp8_block.h"
#include "fk/ops/moe_grouped_gemm_mxfp4.h"
#include "quantized_kernel.cuh"

namespace {
using namespace fkc;
using namespace fkc::quantized;
using B16 = __nv_bfloat16;

// To scratch, as the products take it; `width` columns are rounded together, if any.
template <class W, bool kRounds = false> void arrange_rows(Arguments& a, int64_t rows, int width, const fk_ctx& ctx) {
  const int64_t columns = arranged_columns<W>(a.k), of_row = cdiv(columns, width), parts = rows * of_row;
  const auto out = static_cast<B16*>(ctx.scratch);
  launch(arrange<W, kRounds>, unsigned(cdiv(parts * 32, kArrangers)), kArrangers, 0, ctx, a.x, out, parts, int(of_row), width, a.k, int(columns));
  a.x = out;
}
template <class W, class Op> int64_t scratch_of(const typename Op::init& init, const typename Op::forward& max) {
  return max.x->shape[0] * arranged_columns<W>(init.in_features) * 2;
}

// The product of an op: how it is divided follows from the most rows that there may be.
template <class W> class Product {
 public:
  void prepare(const fk_in* weight, int64_t experts, int64_t n, int64_t k, int64_t most, int64_t tokens) {
    // Half as many again as on average, so that few experts need more than one tile; a token comes to an expert once.
    const int64_t typical = std::min(cdiv(most * 3, experts * 2), tokens);
    tiles_ = int(cdiv(std::max<int64_t>(typical, 1), 8));
    if (tiles_ > 4) tiles_ = kTilesMax;
    // As many rows of weights in a tile as leave multiprocessors idle the least; more of them read x less often.
    const int64_t active = std::min(experts, std::max<int64_t>(most, 1)), at_once = multiprocessors();
    const auto rounds = [&](int groups) { return cdiv(active * cdiv(n, groups * 16), at_once) * groups; };
    for (int groups = 3; groups <= groups_max(tiles_); ++groups)
      if (groups == 3 || rounds(groups) <= rounds(groups_)) groups_ = groups;
    const uint64_t bytes = uint64_t(W::row_bytes(k));
    map_ = tensor_map<3>(weight->data, true, {bytes / 2, uint64_t(n), uint64_t(experts)}, {bytes, bytes * uint64_t(n)}, {kBox / 2, uint32_t(groups_ * 16), 1});
  }
  void multiply(const Arguments& a, int64_t rows, const fk_ctx& ctx) const {
    switch (tiles_) {
      case 1: return run_in_parts(a, rows, ctx);
      case 2: return run<2, 2>(a, rows, ctx);
      case 3: return run<3, 2>(a, rows, ctx);
      case 4: return run<4, 2>(a, rows, ctx);
      default: return run<kTilesMax, 2>(a, rows, ctx);
    }
  }

 private:
  void run_in_parts(const Arguments& a, int64_t rows, const fk_ctx& ctx) const {
    switch (parts_for(1, groups_)) {
      case 2: return run<1, 2>(a, rows, ctx);
      case 3: return run<1, 3>(a, rows, ctx);
      default: return run<1, 4>(a, rows, ctx);
    }
  }
  template <int kTiles, int kParts> void run(const Arguments& a, int64_t rows, const fk_ctx& ctx) const {
    const auto kernel = grouped_rows<W, kTiles, kParts>;
    const Plan plan = plan_of<W>(groups_, kTiles, a.n, a.experts);
    const int threads = threads_of(kParts, groups_);
    // Every expert may have one tile that is not full.
    const int64_t tiles = plan.columns * std::min<int64_t>(rows, rows / plan.rows + a.experts);
    launch(kernel, unsigned(std::min<int64_t>(clusters(kernel, 1, threads, kSharedMax), tiles)), unsigned(threads), size_t(plan.bytes), ctx, map_, a, plan);
  }

  int tiles_ = 0, groups_ = 0;
  CUtensorMap map_{};
};

template <class Op> void need_features(const typename Op::init& init, const typename Op::forward& max) {
  const auto *x = max.x, *row_ids = max.row_ids;
  const fk_out* out = max.out;
  need(FK_DTYPE(x) == FK_BF16 && FK_DTYPE(out) == FK_BF16, "x and out: bfloat16 only");
  need(init.in_features % 16 == 0 && init.out_features % 2 == 0, "in_features: a multiple of 16, out_features: even");
  need(init.out_features < (1 << 30) && init.in_features < (1 << 30), "features: fewer than 2^30");
  need(init.num_experts <= kExpertsMax, "num_experts: up to 1024");
  need((row_ids->shape[0] + init.num_experts) * cdiv(init.out_features, 16) < (int64_t{1} << 31), "row_ids: fewer");
}
template <class Op> Arguments arguments_of(const typename Op::init& init, const fk_in* scale, const typename Op::forward& a) {
  return {fk::data<B16>(a.x), scale->data, {}, fk::data<int32_t>(a.row_ids), fk::data<int32_t>(a.expert_offsets), fk::data<B16>(a.out),
          int(init.num_experts), int(init.top_k), int(init.out_features), int(init.in_features), 1, 1, int(init.out_features), int(init.in_features / 32)};
}

struct MoeGroupedGemmFp8Block : Base<fk::moe_grouped_gemm_fp8_block> {
  using Base::Base;
  static constexpr fk_claims claims = claims_of(FK_GRAPH_ALWAYS, 0);
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& wanted) {
    need_features<op>(init, max);
    need(init.block_k % Fp8::kUnit == 0 && init.block_k < (1 << 30), "block_k: a multiple of 128");
    wanted.scratch = scratch_of<Fp8, op>(init, max);
  }
  void prepare(const op::forward& max, const fk_memory&) { product_.prepare(weights.weight, init.num_experts, init.out_features, init.in_features, max.row_ids->shape[0], max.x->shape[0]); }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t rows = args.row_ids->shape[0];
    if (!rows) return;
    Arguments a = arguments_of<op>(init, weights.weight_scale_inv, args);
    a.block_n = int(std::min<int64_t>(init.block_n, init.out_features)), a.block_k = int(init.block_k);
    a.scale_rows = int(cdiv(a.n, a.block_n)), a.scale_columns = int(cdiv(a.k, a.block_k));
    const int64_t tokens = args.x->shape[0];
    if (init.quantize_input) arrange_rows<Fp8, true>(a, tokens, a.block_k, ctx);
    else arrange_rows<Fp8>(a, tokens, 256, ctx);
    product_.multiply(a, rows, ctx);
  }

 private:
  Product<Fp8> product_;
};

struct MoeGroupedGemmMxfp4 : Base<fk::moe_grouped_gemm_mxfp4> {
  using Base::Base;
  static constexpr fk_claims claims = claims_of(FK_GRAPH_ALWAYS, 0);
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& wanted) {
    need_features<op>(init, max);
    need(init.in_features % 32 == 0, "in_features: a multiple of 32");
    wanted.scratch = scratch_of<Mxfp4, op>(init, max);
    need_parameter(weights.bias.or_null, max.x);
  }
  void prepare(const op::forward& max, const fk_memory&) { product_.prepare(weights.weight, init.num_experts, init.out_features, init.in_features, max.row_ids->shape[0], max.x->shape[0]); }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t rows = args.row_ids->shape[0];
    if (!rows) return;
    Arguments a = arguments_of<op>(init, weights.weight_scale, args);
    a.bias = parameter<B16>(weights.bias.or_null);
    arrange_rows<Mxfp4>(a, args.x->shape[0], 256, ctx);
    product_.multiply(a, rows, ctx);
  }

 private:
  Product<Mxfp4> product_;
};
FK_OP(moe_grouped_gemm_fp8_block, MoeGroupedGemmFp8Block);
FK_OP(moe_grouped_gemm_mxfp4, MoeGroupedGemmMxfp4);

}  // namespace
