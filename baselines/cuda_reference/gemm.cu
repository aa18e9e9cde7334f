// SPDX-License-Identifier: Apache-2.0
// linear, batched_linear, matmul_nt, pairwise_dots, linear_fp8_block and the grouped products of experts, with weights in floats, f8e4m3 blocks
// or mxfp4.
#include "fk/ops/batched_linear.h"
#include "fk/ops/linear.h"
#include "fk/ops/linear_fp8_block.h"
#include "fk/ops/matmul_nt.h"
#define FK_MOE_GROUPED_GEMM_EDITION 2
#include "fk/ops/moe_grouped_gemm.h"
#include "fk/ops/moe_grouped_gemm_fp8_block.h"
#include "fk/ops/moe_grouped_gemm_mxfp4.h"
#include "fk/ops/pairwise_dots.h"
#include "product.cuh"

namespace {
using namespace fkr;
constexpr int64_t kTiles = 65535, kTilesOfExpert = 64;

struct Linear : Plain<fk::linear> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t m = a.x->shape[0], n = init.out_features, k = init.in_features;
    multiply_rows(ref(a.x), Dense{ref(weights.weight), n, k}, ref(weights.bias), ref(a.out),
                  Rows{nullptr, nullptr, 1, m, a.x->strides[0], 0, n, 0}, m, 1, kTiles, ctx);
  }
};
struct BatchedLinear : Plain<fk::batched_linear> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t m = a.x->shape[0], n = init.out_features, k = init.in_features, heads = init.num_heads;
    multiply_rows(ref(a.x), Dense{ref(weights.weight), n, k}, Ref{}, ref(a.out),
                  Rows{nullptr, nullptr, 1, m, a.x->strides[0], a.x->strides[1], heads * n, n}, m, heads, kTiles, ctx);
  }
};
struct MatmulNt : Plain<fk::matmul_nt> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t m = a.x->shape[1], n = a.y->shape[1], k = init.size;
    multiply_rows(ref(a.x), Dense{ref(a.y), n, k}, Ref{}, ref(a.out), Rows{nullptr, nullptr, 1, m, k, m * k, n, m * n}, m, a.x->shape[0], kTiles, ctx);
  }
};
struct PairwiseDots : Plain<fk::pairwise_dots> {
  using Plain::Plain;
  // A thread for each ordered pair of rows; those in the wrong order do nothing.
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const int64_t features = a.x->shape[1], width = init.size, pairs = features * (features - 1) / 2;
    for_each(a.x->shape[0] * features * features, ctx, [=] __device__(int64_t at) {
      const int64_t j = at % features, i = at / features % features, b = at / features / features;
      if (i >= j) return;
      double sum = 0;
      for (int64_t c = 0; c < width; ++c) sum += load(x, (b * features + i) * width + c) * load(x, (b * features + j) * width + c);
      store(out, b * pairs + i * features - i * (i + 1) / 2 + j - i - 1, sum);
    });
  }
};

// The rows of a grouped product; x is dense.
template <class Init, class Forward>
Rows grouped(const Init& init, const Forward& a) {
  return Rows{fk::data<int32_t>(a.row_ids), fk::data<int32_t>(a.expert_offsets), init.top_k, a.row_ids->shape[0], init.in_features, 0,
              init.out_features, 0};
}
template <class Init, class Forward, class Weight>
void multiply_groups(const Init& init, const Forward& a, Ref x, const Weight& weight, Ref bias, const fk_ctx& ctx) {
  const Rows rows = grouped(init, a);
  multiply_rows(x, weight, bias, ref(a.out), rows, 2 * rows.count / init.num_experts, init.num_experts, kTilesOfExpert, ctx);
}
struct MoeGroupedGemm : Plain<fk::moe_grouped_gemm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    multiply_groups(init, a, ref(a.x), Dense{ref(weights.weight), init.out_features, init.in_features}, ref(weights.bias), ctx);
  }
};
struct MoeGroupedGemmMxfp4 : Plain<fk::moe_grouped_gemm_mxfp4> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (init.in_features % 32) throw fk::unsupported{"in_features is not a multiple of 32"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Mxfp4 weight{fk::data<uint8_t>(weights.weight), fk::data<uint8_t>(weights.weight_scale), init.out_features, init.in_features};
    multiply_groups(init, a, ref(a.x), weight, ref(weights.bias), ctx);
  }
};

// v with four significant bits, and no bit below 2^-9. A sum with so large a number has no room for
// lower bits.
__device__ double rounded_to_f8e4m3(double v) {
  const int exponent = int(uint64_t(__double_as_longlong(v)) >> 52 & 2047) - 1023;
  if (exponent > 127) return v;
  const double large = ldexp(1.5, (exponent - 3 > -9 ? exponent - 3 : -9) + 52);
  return copysign((v + large) - large, v);
}
// x [rows, columns] rounded by the contract's quantize_input, as floats, which hold it exactly.
Ref quantized(const fk_in* view, int64_t columns, int64_t width, const fk_ctx& ctx) {
  const Ref x = ref(view);
  Ref out{};
  out.data = static_cast<char*>(ctx.scratch);
  out.stride[0] = columns;
  out.dtype = FK_F32;
  const int64_t groups = (columns + width - 1) / width;
  for_rows(view->shape[0] * groups, 64, 0, ctx, [=] __device__(int64_t i) {
    const int64_t row = i / groups, first = i % groups * width, last = first + width < columns ? first + width : columns;
    double top = 1e-10;
    for (int64_t c = first + threadIdx.x; c < last; c += blockDim.x) top = fmax(top, fabs(load(x, x.at(row) + c)));
    int exponent;
    const double fraction = frexp(block_max(top), &exponent);  // top = fraction * 2^exponent
    const double unit = ldexp(1.0, exponent - 9 + (fraction > 448.0 / 512 ? 1 : 0));
    for (int64_t c = first + threadIdx.x; c < last; c += blockDim.x)
      store(out, row * columns + c, rounded_to_f8e4m3(load(x, x.at(row) + c) / unit) * unit);
  });
  return out;
}
template <class Init, class Forward>
int64_t quantized_bytes(const Init& init, const Forward& max) {
  return init.quantize_input ? max.x->shape[0] * init.in_features * 4 : 0;
}
template <class Init, class Weights>
Fp8Blocks blocks_of(const Init& init, const Weights& weights) {
  return {ref(weights.weight), fk::data<float>(weights.weight_scale_inv), init.out_features, init.in_features, init.block_n, init.block_k};
}
struct LinearFp8Block : Plain<fk::linear_fp8_block> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need) {
    need.scratch = quantized_bytes(init, max);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = init.quantize_input ? quantized(a.x, init.in_features, init.block_k, ctx) : ref(a.x);
    const int64_t m = a.x->shape[0];
    multiply_rows(x, blocks_of(init, weights), ref(weights.bias), ref(a.out),
                  Rows{nullptr, nullptr, 1, m, x.stride[0], 0, init.out_features, 0}, m, 1, kTiles, ctx);
  }
};
struct MoeGroupedGemmFp8Block : Plain<fk::moe_grouped_gemm_fp8_block> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need) {
    need.scratch = quantized_bytes(init, max);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = init.quantize_input ? quantized(a.x, init.in_features, init.block_k, ctx) : ref(a.x);
    multiply_groups(init, a, x, blocks_of(init, weights), Ref{}, ctx);
  }
};
FK_OP(linear, Linear);
FK_OP(batched_linear, BatchedLinear);
FK_OP(matmul_nt, MatmulNt);
FK_OP(pairwise_dots, PairwiseDots);
FK_OP(linear_fp8_block, LinearFp8Block);
FK_OP(moe_grouped_gemm, MoeGroupedGemm);
FK_OP(moe_grouped_gemm_fp8_block, MoeGroupedGemmFp8Block);
FK_OP(moe_grouped_gemm_mxfp4, MoeGroupedGemmMxfp4);

}  // namespace
