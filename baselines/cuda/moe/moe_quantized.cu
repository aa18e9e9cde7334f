// SPDX-License-Identifier: Apache-2.0
// Grouped GEMMs of bfloat16 rows with dequantized weights. These have eight bits and a scale for
// each block (DeepSeek), or four bits and a power of two for every 32 (gpt-oss). In decode few rows
// meet an expert, so the kernel has to read its weights once, at the speed of memory.
#include "../parts/op.cuh"
#include "../parts/tensor_map.cuh"
#include "fk/ops/moe_grouped_gemm_fp8_block.h"
#include "fk/ops/moe_grouped_gemm_mxfp4.h"
#include "quantized_kernel.cuh"

namespace {
using namespace fkc;
using namespace fkc::quantized;
using B16 = __nv_bfloat16;

constexpr int kRounders = 256;

// A warp rounds a group of a row.
__global__ void __launch_bounds__(kRounders) round_groups(const B16* x, B16* out, int64_t groups, int of_row, int width, int k) {
  wait_for_inputs();
  const int64_t group = (int64_t(blockIdx.x) * kRounders + threadIdx.x) / 32;
  if (group >= groups) return;
  const int lane = threadIdx.x % 32, begin = int(group % of_row) * width, end = min(begin + width, k);
  const int64_t row = group / of_row * k;
  float top = kLeastTop;
  for (int c = begin + lane; c < end; c += 32) top = fmaxf(top, fabsf(to_float(x[row + c])));
  top = warp_max(top);
  const Rounding round(top);
  for (int c = begin + lane; c < end; c += 32) out[row + c] = round(to_float(x[row + c]));
}

// The product of an op. The largest number of rows decides its division.
template <class W> class Product {
 public:
  void prepare(const fk_in* weight, int64_t experts, int64_t n, int64_t k, int64_t most, int64_t tokens) {
    // Room for 1.5 times the average rows, so few experts need more than one tile. A token comes to
    // an expert once.
    const int64_t typical = std::min(cdiv(most * 3, experts * 2), tokens);
    tiles_ = int(cdiv(std::max<int64_t>(typical, 1), 8));
    if (tiles_ > 4) tiles_ = kTilesMax;
    // The number of rows of weights in a tile which leaves multiprocessors idle the least. More
    // rows read x less often.
    const int64_t active = std::min(experts, std::max<int64_t>(most, 1)), at_once = sm_count();
    const auto rounds = [&](int groups) { return cdiv(active * cdiv(n, groups * 16), at_once) * groups; };
    for (int groups = 3; groups <= groups_max(tiles_); ++groups)
      if (groups == 3 || rounds(groups) <= rounds(groups_)) groups_ = groups;
    const uint64_t bytes = uint64_t(W::row_bytes(k));
    map_ = tensor_map<3>(weight->data, true, {bytes / 2, uint64_t(n), uint64_t(experts)}, {bytes, bytes * uint64_t(n)}, {kBox / 2, uint32_t(groups_ * 16), 1});
  }
  bool few() const { return tiles_ < kTilesMax; }
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
    const auto kernel = dequant_grouped_gemm<W, kTiles, kParts>;
    const Plan plan = plan_of<W>(groups_, kTiles, a.n, a.experts);
    const int threads = threads_of(kParts, groups_);
    // Every expert may have one partial tile.
    const int64_t tiles = plan.columns * std::min<int64_t>(rows, rows / plan.rows + a.experts);
    launch(kernel, unsigned(std::min<int64_t>(max_active_clusters(kernel, 1, threads, kSharedMax), tiles)), unsigned(threads), size_t(plan.bytes), ctx, map_, a, plan);
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
  // Tiles are counted in 32 bits. A tile has at least 48 rows of weights.
  need((row_ids->shape[0] + init.num_experts) * cdiv(init.out_features, 16) < (int64_t{1} << 31), "row_ids and experts: fewer for so many out_features");
}
template <class Op> Arguments arguments_of(const typename Op::init& init, const fk_in* scale, const typename Op::forward& a) {
  return {fk::data<B16>(a.x), scale->data, {}, fk::data<int32_t>(a.row_ids), fk::data<int32_t>(a.expert_offsets), fk::data<B16>(a.out),
          int(init.num_experts), int(init.top_k), int(init.out_features), int(init.in_features), 1, 1, int(init.out_features), int(init.in_features / 32), 0};
}

struct MoeGroupedGemmFp8Block : Base<fk::moe_grouped_gemm_fp8_block> {
  using Base::Base;
  static constexpr fk_claims claims = claims_of(FK_GRAPH_ALWAYS, 0);
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& wanted) {
    need_features<op>(init, max);
    need(init.block_k % Fp8::kUnit == 0 && init.block_k < (1 << 30), "block_k: a multiple of 128");
    if (init.quantize_input) wanted.scratch = max.x->shape[0] * init.in_features * 2;
  }
  void prepare(const op::forward& max, const fk_memory&) { product_.prepare(weights.weight, init.num_experts, init.out_features, init.in_features, max.row_ids->shape[0], max.x->shape[0]); }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t rows = args.row_ids->shape[0];
    if (!rows) return;
    Arguments a = arguments_of<op>(init, weights.weight_scale_inv, args);
    a.block_n = int(std::min<int64_t>(init.block_n, init.out_features)), a.block_k = int(init.block_k);
    a.scale_rows = int(cdiv(a.n, a.block_n)), a.scale_columns = int(cdiv(a.k, a.block_k));
    a.rounds = init.quantize_input && a.block_k == Fp8::kUnit && product_.few();
    if (init.quantize_input && !a.rounds) {
      const int64_t of_row = cdiv(init.in_features, init.block_k), groups = args.x->shape[0] * of_row;
      launch(round_groups, unsigned(cdiv(groups * 32, kRounders)), kRounders, 0, ctx, a.x, static_cast<B16*>(ctx.scratch), groups, int(of_row), a.block_k, a.k);
      a.x = static_cast<const B16*>(ctx.scratch);
    }
    product_.multiply(a, rows, ctx);
  }

 private:
  Product<Fp8> product_;
};

struct MoeGroupedGemmMxfp4 : Base<fk::moe_grouped_gemm_mxfp4> {
  using Base::Base;
  static constexpr fk_claims claims = claims_of(FK_GRAPH_ALWAYS, 0);
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need_features<op>(init, max);
    need(init.in_features % 32 == 0, "in_features: a multiple of 32");
    need_parameter(weights.bias.or_null, max.x);
  }
  void prepare(const op::forward& max, const fk_memory&) { product_.prepare(weights.weight, init.num_experts, init.out_features, init.in_features, max.row_ids->shape[0], max.x->shape[0]); }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t rows = args.row_ids->shape[0];
    if (!rows) return;
    Arguments a = arguments_of<op>(init, weights.weight_scale, args);
    a.bias = parameter<B16>(weights.bias.or_null);
    product_.multiply(a, rows, ctx);
  }

 private:
  Product<Mxfp4> product_;
};
FK_OP(moe_grouped_gemm_fp8_block, MoeGroupedGemmFp8Block);
FK_OP(moe_grouped_gemm_mxfp4, MoeGroupedGemmMxfp4);

}  // namespace
