// SPDX-License-Identifier: Apache-2.0
// Grouped products with weights of eight bits and a scale for every block (DeepSeek) or of four bits and a power of two for
// every 32 (gpt-oss), for rows of bfloat16. Few rows meet an expert in decode, so what counts is that its weights are read
// once at the speed of memory: lanes read 16 bytes of a row straight into registers, two or three blocks of K ahead, and make
// bfloat16 of them there. The order of K in a product is free, so a lane's fragments of mma.m16n8k16 are the columns that it
// has read, and those of x, which all warps share, are read from shared memory in the same order.
#include "attention_common.cuh"
#include "fk/ops/moe_grouped_gemm_fp8_block.h"
#include "fk/ops/moe_grouped_gemm_mxfp4.h"

namespace {
using namespace fkc;
using B16 = __nv_bfloat16;

// A block of threads has kColumns columns of out; of its eight warps four have 16 of them each, for every other block of K,
// and four for the rest.
constexpr int kColumns = 64, kThreads = 256, kDeep = 128, kHalves = 2, kStages = 3;
constexpr int kSteps = kDeep / 16;  // of mma in a block of K
__host__ __device__ constexpr uint32_t twice(uint32_t v) { return v << 16 | v; }

// e4m3, a scale for block_n x block_k. The bits of exponent and mantissa, moved to where bfloat16 has its own, are 2^-120 of the
// number, also where it is subnormal; weights that are NaN are not looked for.
struct Fp8 {
  static constexpr int kLoads = 2, kChunksOfRow = 17;  // of 16 bytes: a lane's from a row; a row of x, so that banks differ
  static constexpr bool kBlocks = true;
  __host__ __device__ static constexpr int64_t row_bytes(int64_t k) { return k; }
  __device__ static constexpr int load_at(int load, int t) { return load * 64 + t * 16; }        // bytes from the block's first
  __device__ static constexpr int chunk(int two_steps, int t) { return two_steps / 2 * 8 + t * 2 + two_steps % 2; }  // of x: eight columns
  __device__ static constexpr int placed(int chunk) { return chunk; }
  // Four columns of a row for a step: two and two.
  __device__ static void widen(const uint32_t (&raw)[4 * kLoads], int step, uint32_t, uint32_t (&to)[2]) {
    const uint32_t word = raw[step];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t two = word >> i * 16, bytes = (two & 0xff) << 8 | (two & 0xff00) << 16;
      to[i] = multiply_bf16x2((bytes & twice(0x8000)) | (bytes >> 4 & twice(0x07f0)), twice((120 + 127) << 7));
    }
  }
};

// e2m1, low bits first. Moved likewise they are 2^-126 of the number.
struct Mxfp4 {
  static constexpr int kLoads = 1, kChunksOfRow = 18;
  static constexpr bool kBlocks = false;
  __host__ __device__ static constexpr int64_t row_bytes(int64_t k) { return k / 2; }
  __device__ static constexpr int load_at(int, int t) { return t * 16; }
  __device__ static constexpr int chunk(int two_steps, int t) { return t * 4 + two_steps; }
  __device__ static constexpr int placed(int chunk) { return chunk ^ (chunk >> 3); }
  // e8m0 as bfloat16: 0 is subnormal there.
  __device__ static uint32_t power(uint8_t bits) { return twice(bits == 255 ? 0x7fc0 : bits == 0 ? 0x40 : bits << 7); }
  __device__ static void widen(const uint32_t (&raw)[4 * kLoads], int step, uint32_t power, uint32_t (&to)[2]) {
    const uint32_t word = raw[step / 2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t byte = word >> (step % 2 * 2 + i) * 8 & 0xff, nibbles = byte | byte << 12;
      const uint32_t bits = (nibbles & twice(8)) << 12 | (nibbles & twice(7)) << 6;
      to[i] = multiply_bf16x2(multiply_bf16x2(bits, twice((126 + 127) << 7)), power);
    }
  }
};

struct Arguments {
  const B16* x;
  const uint8_t* weight;
  const void* scale;
  Parameter<B16> bias;
  const int32_t *row_ids, *offsets;
  B16* out;
  int experts, top_k, n, k, block_n, block_k;
};

// A tile of assignments, counted over all experts, by a warp: its expert (-1: none), first assignment and the expert's end.
__device__ void find_tile(const int32_t* offsets, int experts, int tile, int high, int (&found)[3]) {
  const int lane = threadIdx.x % 32;
  if (lane == 0) found[0] = -1;
  __syncwarp();
  for (int first = 0, before = 0; first < experts && before <= tile; first += 32) {
    const int e = first + lane, begin = e < experts ? offsets[e] : 0, end = e < experts ? offsets[e + 1] : 0;
    const int own = (end - begin + high - 1) / high;
    int upto = own;  // with those of the lanes before
    for (int i = 1; i < 32; i *= 2) {
      const int other = __shfl_sync(0xffffffffu, upto, lane >= i ? lane - i : lane);
      if (lane >= i) upto += other;
    }
    const int at = tile - (before + upto - own);
    if (at >= 0 && at < own) found[0] = e, found[1] = begin + at * high, found[2] = end;
    before += __shfl_sync(0xffffffffu, upto, 31);
  }
}

// kRows assignments of one expert by kColumns columns of out. kSets: blocks of K whose weights are on their way.
template <class W, int kRows, int kSets> __global__ void __launch_bounds__(kThreads, kRows > 16 ? 1 : 2) grouped_quantized(const Arguments a) {
  char* const shared = dynamic_shared();
  __shared__ int found[3], source[kRows], target[kRows];  // -1: none
  constexpr int kHalf = kRows * W::kChunksOfRow * 16, kStage = kHalves * kHalf, kTiles = kRows / 8, kCopies = kRows / 8;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, half = warp / 4, g = lane / 4, t = lane % 4;
  wait_for_inputs();
  if (warp == 0) find_tile(a.offsets, a.experts, int(blockIdx.y), kRows, found);
  __syncthreads();
  if (found[0] < 0) return;
  if (threadIdx.x < kRows) {
    const int at = found[1] + int(threadIdx.x), id = at < found[2] ? a.row_ids[at] : -1;
    target[threadIdx.x] = id;
    source[threadIdx.x] = id < 0 ? -1 : id / a.top_k;
  }
  __syncthreads();

  // x: a thread's chunk of every eighth row.
  const uint32_t base = shared_address(shared);
  const int chunk = threadIdx.x % 32, turns = (a.k + kHalves * kDeep - 1) / (kHalves * kDeep);
  const uint32_t to = base + chunk / 16 * kHalf + W::placed(chunk % 16) * 16;
  const B16* from[kCopies];
#pragma unroll
  for (int i = 0; i < kCopies; ++i) {
    const int row = source[i * 8 + warp];
    from[i] = row < 0 ? nullptr : a.x + int64_t(row) * a.k + chunk * 8;
  }
  const auto fetch_x = [&](int turn) {
    const int column = turn * kHalves * kDeep;
    if (turn < turns) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const bool there = from[i] && column + chunk * 8 < a.k;
        copy_async(to + turn % kStages * kStage + (i * 8 + warp) * W::kChunksOfRow * 16, there ? from[i] + column : a.x, there);
      }
    }
    commit_copies();
  };

  // Weights: rows g and g + 8 of the warp's sixteen.
  const int first = blockIdx.x * kColumns, column0 = first + warp % 4 * 16 + g;
  const int64_t row_bytes = W::row_bytes(a.k), scales_of_row = W::kBlocks ? (a.k + a.block_k - 1) / a.block_k : a.k / 32;
  const int64_t scale_rows = W::kBlocks ? (a.n + a.block_n - 1) / a.block_n : a.n;
  const uint8_t* weight[2];
  int64_t scale[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int n = column0 + r * 8;
    weight[r] = n < a.n ? a.weight + (int64_t(found[0]) * a.n + n) * row_bytes : nullptr;
    scale[r] = (found[0] * scale_rows + (n < a.n ? (W::kBlocks ? n / a.block_n : n) : 0)) * scales_of_row;
  }
  struct Set {
    uint32_t raw[2][4 * W::kLoads];
    float scale[2];
    uint32_t power[2];
  } sets[kSets];
  const auto fetch_weights = [&](Set& set, int turn) {
    const int block = turn * kHalves + half;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int l = 0; l < W::kLoads; ++l) {
        const int64_t at = block * W::row_bytes(kDeep) + W::load_at(l, t);
        const uint4 v = weight[r] && at < row_bytes ? *reinterpret_cast<const uint4*>(weight[r] + at) : make_uint4(0, 0, 0, 0);
        set.raw[r][l * 4] = v.x, set.raw[r][l * 4 + 1] = v.y, set.raw[r][l * 4 + 2] = v.z, set.raw[r][l * 4 + 3] = v.w;
      }
      if constexpr (W::kBlocks) {
        set.scale[r] = block * kDeep < a.k ? static_cast<const float*>(a.scale)[scale[r] + block * kDeep / a.block_k] : 0.F;
      } else {
        const int at = block * (kDeep / 32) + t;
        set.power[r] = W::power(at < scales_of_row ? static_cast<const uint8_t*>(a.scale)[scale[r] + at] : 0);
      }
    }
  };
#pragma unroll
  for (int s = 0; s < kSets; ++s) fetch_weights(sets[s], s);
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) fetch_x(s);

  float acc[kTiles][4] = {};
  for (int turn0 = 0; turn0 < turns; turn0 += kSets)
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      const int turn = turn0 + s;
      if (turn >= turns) break;
      await_copies<kStages - 2>();
      __syncthreads();
      fetch_x(turn + kStages - 1);
      const uint32_t rows = base + turn % kStages * kStage + half * kHalf + g * W::kChunksOfRow * 16;
      Set& set = sets[s];
      float of_block[kTiles][4] = {};
#pragma unroll
      for (int two = 0; two < kSteps / 2; ++two) {
        uint32_t left[2][4];
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            uint32_t wide[2];
            W::widen(set.raw[r], two * 2 + i, W::kBlocks ? 0 : set.power[r], wide);
            left[i][r] = wide[0], left[i][2 + r] = wide[1];
          }
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
          const uint4 right = load_shared(rows + j * 8 * W::kChunksOfRow * 16 + W::placed(W::chunk(two, t)) * 16);
          float(&sum)[4] = W::kBlocks ? of_block[j] : acc[j];
          multiply<B16>(sum, left[0], right.x, right.y);
          multiply<B16>(sum, left[1], right.z, right.w);
        }
      }
      if constexpr (W::kBlocks) {
#pragma unroll
        for (int j = 0; j < kTiles; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) acc[j][i] += set.scale[i / 2] * of_block[j][i];
      }
      if (turn + kSets < turns) fetch_weights(set, turn + kSets);
    }

  // Both halves of K meet in shared memory, turned round: a row of out there is a row.
  await_copies<0>();
  __syncthreads();
  float* const sums = reinterpret_cast<float*>(shared);
  constexpr int kWide = kColumns + 1;
  for (int turn = 0; turn < kHalves; ++turn) {
    if (half == turn) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& sum = sums[(j * 8 + t * 2 + i % 2) * kWide + warp % 4 * 16 + g + i / 2 * 8];
          sum = turn ? sum + acc[j][i] : acc[j][i];
        }
    }
    __syncthreads();
  }
  for (int at = threadIdx.x; at < kRows * kColumns / 2; at += kThreads) {
    const int row = at / (kColumns / 2), column = at % (kColumns / 2) * 2, n = first + column;
    if (target[row] < 0 || n >= a.n) continue;  // n is even
    float v[2] = {sums[row * kWide + column], sums[row * kWide + column + 1]};
    if (a.bias.narrow || a.bias.wide)
      for (int i = 0; i < 2; ++i) v[i] += a.bias.one(int64_t(found[0]) * a.n + n + i);
    *reinterpret_cast<uint32_t*>(a.out + int64_t(target[row]) * a.n + n) = pair<B16>(v[0], v[1]);
  }
}

// A warp rounds a group of a row to e4m3 in units of the smallest power of two in which it fits.
__global__ void __launch_bounds__(kThreads) round_groups(const B16* x, B16* out, int64_t groups, int of_row, int width, int k) {
  wait_for_inputs();
  const int64_t group = (int64_t(blockIdx.x) * kThreads + threadIdx.x) / 32;
  if (group >= groups) return;
  const int lane = threadIdx.x % 32, begin = int(group % of_row) * width, end = min(begin + width, k);
  const int64_t row = group / of_row * k;
  float top = 1e-10F;
  for (int c = begin + lane; c < end; c += 32) top = fmaxf(top, fabsf(to_float(x[row + c])));
  for (int i = 16; i > 0; i /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, i));
  const uint32_t bits = __float_as_uint(top);
  const int unit = int(bits >> 23) - 126 - 9 + ((bits & 0x7fffff) > 0x600000);  // 448 = 0.875 * 2^9
  const auto power = [](int e) { return __uint_as_float(uint32_t(e + 127) << 23); };
  for (int c = begin + lane; c < end; c += 32) {
    const float v = to_float(x[row + c]) * power(-unit);
    const int last = max(int(__float_as_uint(v) >> 23 & 255) - 127, -6) - 3;  // the exponent of its last bit
    out[row + c] = from_float<B16>(rintf(v * power(-last)) * power(last) * power(unit));
  }
}

template <class W> void multiply_grouped(const Arguments& a, int64_t rows, const fk_ctx& ctx) {
  const auto run = [&](auto high, auto sets) {
    constexpr int kRows = decltype(high)::value, kSets = decltype(sets)::value;
    constexpr int kShared = kStages * kHalves * kRows * W::kChunksOfRow * 16;
    static_assert(kShared >= kRows * (kColumns + 1) * 4);
    const auto kernel = grouped_quantized<W, kRows, kSets>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    // Every expert may have one tile that is not full.
    const dim3 grid(unsigned(cdiv(a.n, kColumns)), unsigned(rows / kRows + std::min<int64_t>(rows, a.experts)));
    launch(kernel, grid, kThreads, kShared, ctx, a);
  };
  if (rows <= 16 * int64_t{a.experts}) run(std::integral_constant<int, 16>{}, std::integral_constant<int, 3>{});
  else run(std::integral_constant<int, 64>{}, std::integral_constant<int, 2>{});
}

template <class Op> void need_features(const typename Op::init& init, const typename Op::forward& max) {
  const auto *x = max.x, *row_ids = max.row_ids;
  const fk_out* out = max.out;
  need(FK_DTYPE(x) == FK_BF16 && FK_DTYPE(out) == FK_BF16, "x and out: bfloat16 only");
  need(init.in_features % 16 == 0 && init.out_features % 2 == 0, "in_features: a multiple of 16, out_features: even");
  need(init.out_features < (1 << 30) && init.in_features < (1 << 30), "features: fewer than 2^30");
  need(row_ids->shape[0] / 64 + init.num_experts < 65536 && init.num_experts < (1 << 15), "row_ids: fewer");
}
template <class Op> Arguments arguments_of(const typename Op::init& init, const typename Op::weights& weights, const typename Op::forward& a) {
  return {fk::data<B16>(a.x), static_cast<const uint8_t*>(weights.weight->data), nullptr, {}, fk::data<int32_t>(a.row_ids), fk::data<int32_t>(a.expert_offsets),
          fk::data<B16>(a.out), int(init.num_experts), int(init.top_k), int(init.out_features), int(init.in_features), 1, 1};
}

struct MoeGroupedGemmFp8Block : Base<fk::moe_grouped_gemm_fp8_block> {
  using Base::Base;
  static constexpr fk_claims claims = claims_of(FK_GRAPH_ALWAYS, 0);
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& wanted) {
    need_features<op>(init, max);
    need(init.block_k % kDeep == 0 && init.block_k < (1 << 30), "block_k: a multiple of 128");
    if (init.quantize_input) wanted.scratch = max.x->shape[0] * init.in_features * 2;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t rows = args.row_ids->shape[0];
    if (!rows) return;
    Arguments a = arguments_of<op>(init, weights, args);
    a.scale = weights.weight_scale_inv->data;
    a.block_n = int(std::min<int64_t>(init.block_n, init.out_features)), a.block_k = int(init.block_k);
    if (init.quantize_input) {
      const int64_t of_row = cdiv(init.in_features, init.block_k), groups = args.x->shape[0] * of_row;
      launch(round_groups, unsigned(cdiv(groups * 32, kThreads)), kThreads, 0, ctx, a.x, static_cast<B16*>(ctx.scratch), groups, int(of_row), a.block_k, a.k);
      a.x = static_cast<const B16*>(ctx.scratch);
    }
    multiply_grouped<Fp8>(a, rows, ctx);
  }
};

struct MoeGroupedGemmMxfp4 : Base<fk::moe_grouped_gemm_mxfp4> {
  using Base::Base;
  static constexpr fk_claims claims = claims_of(FK_GRAPH_ALWAYS, 0);
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need_features<op>(init, max);
    need(init.in_features % 32 == 0, "in_features: a multiple of 32");
    need_parameter(weights.bias.or_null, max.x);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t rows = args.row_ids->shape[0];
    if (!rows) return;
    Arguments a = arguments_of<op>(init, weights, args);
    a.scale = weights.weight_scale->data;
    a.bias = parameter<B16>(weights.bias.or_null);
    multiply_grouped<Mxfp4>(a, rows, ctx);
  }
};
FK_OP(moe_grouped_gemm_fp8_block, MoeGroupedGemmFp8Block);
FK_OP(moe_grouped_gemm_mxfp4, MoeGroupedGemmMxfp4);

}  // namespace
