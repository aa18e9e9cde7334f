// SPDX-License-Identifier: Apache-2.0
// linear for up to 16 rows of x, which is bound by reading the weights once. Blocks are persistent and stream 16
// weight rows at a time through a ring in shared memory that the tensor copy engine fills; x stays in shared memory.
// The ring starts to fill before the kernel before this one has ended, so small kernels between two products cost
// little. Where x is large, a cluster of blocks shares K: each keeps its part of x, and one of them, in turn, adds
// the parts of 16 columns of out up, always in the same order.
//   warps 0-7   multiply (mma.m16n8k16, the weights are the matrix of 16 rows); steps of K go round the warps
//   warp 8      fills the ring
//   the others  two for every eight rows of x: one adds up the warps, one the blocks of the cluster, and writes out
#include <cuda.h>

#include <map>
#include <mutex>
#include <utility>

#include "common.cuh"
#include "fk/ops/linear.h"

namespace {
using namespace fkc;
constexpr int kWarps = 8, kRows = 16, kRowsMax = 16, kStagesMax = 8;
constexpr int kBox = 256, kChunk = 512;  // elements of K of one copy, and of a stage
constexpr int kStage = kRows * kChunk * 2, kSharedMax = 224 << 10;  // bytes
constexpr int kColumnPitch = 20;  // floats per row of x in partial sums: 16, spread over the banks

__device__ void barrier_init(uint32_t at, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count)); }
__device__ void barrier_expect(uint32_t at, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
__device__ void barrier_arrive(uint32_t at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }
__device__ void barrier_arrive_in(uint32_t there) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}
// Waits for the phase of that parity to end.
__device__ void barrier_wait(uint32_t at, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(at), "r"(parity) : "memory");
  } while (!done);
}
// Four numbers into the shared memory of a block of the cluster, counted by its barrier.
__device__ void store_in(uint32_t there, float4 v, uint32_t barrier_there) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(there), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier_there) : "memory");
}
__device__ uint64_t read_once() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ void copy_bulk(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
// A box of a tensor map: elements from k0 of 64 * boxes columns, 16 rows.
__device__ void copy_box(uint32_t to, const CUtensorMap& map, int row, int k64, uint32_t barrier, uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;"
               ::"r"(to), "l"(&map), "r"(0), "r"(row), "r"(k64), "r"(barrier), "l"(policy) : "memory");
}
// Where things lie in shared memory, in bytes; the host sizes it by the same rules.
struct Plan {
  int split, slice, stages;  // blocks of a cluster, elements of K in each, stages of the ring
  int x_chunks, x_pitch, x, part, gather, bytes;  // x_chunks: of a piece of x
};
constexpr int kParts = 2;   // sets of partial sums, so that warps need not wait for each other
constexpr int kXMax = 32;  // pieces of x that are waited for one by one
enum : int { kFull = 0, kEmpty = kStagesMax, kX = 2 * kStagesMax, kPart = kX + kXMax, kPartFree = kPart + 2, kGather = kPartFree + 2, kGatherFree = kGather + 4, kBarriers = kGatherFree + 8 };
constexpr int kZeros = 1008, kRing = 1024;  // 16 bytes of zeros for absent rows of x, then the ring
static_assert(kBarriers * 8 <= kZeros);

Plan plan_of(int m, int k) {
  const int tiles = m <= 8 ? 1 : 2;
  Plan p{};
  const int sums = tiles * 8 * kColumnPitch * 4;
  for (p.split = 1;; p.split *= 2) {
    p.slice = int(cdiv(cdiv(k, p.split), kBox) * kBox);
    p.x_pitch = std::min(p.slice, k) * 2 + 16;
    p.x_chunks = int(cdiv(cdiv(p.slice, kChunk), kXMax));
    const int x = int(cdiv(m * p.x_pitch, 128) * 128), gather = p.split > 1 ? p.split * sums : 0;
    p.stages = std::min((kSharedMax - kRing - x - kParts * kWarps * sums - gather) / kStage, kStagesMax);
    p.x = kRing + std::max(p.stages, 0) * kStage;
    p.part = p.x + x;
    p.gather = p.part + kParts * kWarps * sums;
    p.bytes = p.gather + gather;
    if ((x <= (72 << 10) && p.stages >= 4) || p.split == 8) return p;
  }
}

// kTiles: eight rows of x each. x and out are [m, k] and [m, n].
template <class T, class O, int kTiles>
__global__ void __launch_bounds__(32 * (kWarps + 1 + 2 * kTiles), 1)
few_rows(const __grid_constant__ CUtensorMap weight, const T* __restrict__ x, int64_t x_step, const O* bias, O* out, int m, int n, int k, const Plan plan) {
  extern __shared__ __align__(1024) char shared[];
  const uint32_t base = shared_address(shared);
  const auto barrier = [&](int which) { return base + which * 8; };
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int rank = blockIdx.x % plan.split, cluster = blockIdx.x / plan.split, clusters = gridDim.x / plan.split;
  const int k_begin = rank * plan.slice, k_count = max(0, min(plan.slice, k - k_begin));
  const int tiles = (n + kRows - 1) / kRows, chunks = (k_count + kChunk - 1) / kChunk;
  constexpr int kSums = kTiles * 8 * kColumnPitch;
  asm volatile("griddepcontrol.launch_dependents;");
  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.stages; ++i) barrier_init(barrier(kFull + i), 1), barrier_init(barrier(kEmpty + i), kWarps);
    for (int i = 0; i < 2; ++i) barrier_init(barrier(kPart + i), kWarps), barrier_init(barrier(kPartFree + i), kTiles);
    for (int i = 0; i < kXMax; ++i) barrier_init(barrier(kX + i), 1);
    for (int i = 0; i < kTiles; ++i) barrier_init(barrier(kGather + i), 1);
    for (int r = 0; r < plan.split; ++r) barrier_init(barrier(kGatherFree + r), kTiles);
    *reinterpret_cast<uint4*>(shared + kZeros) = make_uint4(0, 0, 0, 0);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (plan.split > 1) cluster_sync();

  if (warp == kWarps) {  // fills the ring
    const uint64_t policy = read_once();
    int stage = 0, turn = 0;
    bool waited = false;
    const auto fetch_x = [&] {
      asm volatile("griddepcontrol.wait;" ::: "memory");
      const int step = plan.x_chunks * kChunk;
      for (int from = 0, i = 0; from < k_count; from += step, ++i) {
        const int bytes = min(step, k_count - from) * 2;
        if (lane == 0) barrier_expect(barrier(kX + i), m * bytes);
        __syncwarp();
        if (lane < m) copy_bulk(base + plan.x + lane * plan.x_pitch + from * 2, x + lane * x_step + k_begin + from, bytes, barrier(kX + i));
      }
      waited = true;
    };
    for (int tile = cluster; tile < tiles; tile += clusters) {
      for (int c = 0; c < chunks; ++c) {
        if (turn > 0) {
          if (!waited) fetch_x();
          barrier_wait(barrier(kEmpty + stage), (turn - 1) & 1);
        }
        const int boxes = min(kChunk, k_count - c * kChunk) > kBox ? 2 : 1;
        if (lane == 0) {
          barrier_expect(barrier(kFull + stage), boxes * kRows * kBox * 2);
          for (int i = 0; i < boxes; ++i)
            copy_box(base + kRing + stage * kStage + i * kRows * kBox * 2, weight, tile * kRows, (k_begin + c * kChunk + i * kBox) / 64, barrier(kFull + stage), policy);
        }
        if (++stage == plan.stages) stage = 0, ++turn;
      }
    }
    if (!waited) fetch_x();
  } else if (warp < kWarps) {  // multiplies
    // ldmatrix: this lane's 16 bytes of two neighbouring 16 x 16 tiles of weights (128-byte swizzle), and of 8 rows of x times 32.
    uint32_t a_at[2], b_at[kTiles], b_step[kTiles];
#pragma unroll
    for (int j = 0; j < 2; ++j)
      a_at[j] = base + kRing + warp / 2 * (kRows * 128) + lane % 16 * 128 + ((warp % 2 * 4 + j * 2 + lane / 16) ^ (lane % 8)) * 16;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const int row = t * 8 + lane % 8;
      b_at[t] = row < m ? base + plan.x + row * plan.x_pitch + lane / 8 * 16 : base + kZeros;
      b_step[t] = row < m ? 1 : 0;
    }
    int stage = 0, turn = 0, done = 0;
    for (int tile = cluster; tile < tiles; tile += clusters, ++done) {
      float acc[kTiles][4] = {};
      for (int c = 0; c < chunks; ++c) {
        const int pairs = min(kChunk, k_count - c * kChunk) / 32;
        barrier_wait(barrier(kFull + stage), turn & 1);
        if (tile == cluster) barrier_wait(barrier(kX + c / plan.x_chunks), 0);
        const auto step = [&](int i) {
          uint32_t one[4], two[4];
          load_matrices(one, a_at[0] + stage * kStage + i * (kWarps / 2 * kRows * 128));
          load_matrices(two, a_at[1] + stage * kStage + i * (kWarps / 2 * kRows * 128));
#pragma unroll
          for (int t = 0; t < kTiles; ++t) {
            uint32_t b[4];
            load_matrices(b, b_at[t] + b_step[t] * (c * kChunk + (i * kWarps + warp) * 32) * 2);
            multiply<T>(acc[t], one, b[0], b[1]);
            multiply<T>(acc[t], two, b[2], b[3]);
          }
        };
        if (pairs == 2 * kWarps) {
          step(0);
          step(1);
        } else {
          if (warp < pairs) step(0);
          if (warp + kWarps < pairs) step(1);
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(barrier(kEmpty + stage));
        if (++stage == plan.stages) stage = 0, ++turn;
      }
      const int set = done % kParts, use = done / kParts;
      if (use > 0) barrier_wait(barrier(kPartFree + set), (use - 1) & 1);
      float* sums = reinterpret_cast<float*>(shared + plan.part) + (set * kWarps + warp) * kSums;
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[(t * 8 + lane % 4 * 2 + j % 2) * kColumnPitch + lane / 4 + j / 2 * 8] = acc[t][j];
      __syncwarp();
      if (lane == 0) barrier_arrive(barrier(kPart + set));
    }
  } else {  // adds up: four columns of one row of x per lane
    const int part = (warp - kWarps - 1) % kTiles, row = part * 8 + lane / 4, mine = row * kColumnPitch + lane % 4 * 4;
    const bool last = warp > kWarps + kTiles;
    const auto add = [](float4& to, const float4 v) { to.x += v.x, to.y += v.y, to.z += v.z, to.w += v.w; };
    const auto write = [&](int tile, float4 total) {
      const float values[4] = {total.x, total.y, total.z, total.w};
      const int column = tile * kRows + lane % 4 * 4;
      if (row >= m) return;
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (column + j < n) out[int64_t(row) * n + column + j] = as<O>(values[j] + (bias ? value_of(bias[column + j]) : 0.F));
    };
    int done = 0;
    for (int tile = cluster; tile < tiles; tile += clusters, ++done) {
      const int owner = done % plan.split, round = done / plan.split;
      float4 total = make_float4(0, 0, 0, 0);
      if (!last) {
        const int set = done % kParts, use = done / kParts;
        barrier_wait(barrier(kPart + set), use & 1);
        const float* sums = reinterpret_cast<const float*>(shared + plan.part) + set * kWarps * kSums + mine;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) add(total, *reinterpret_cast<const float4*>(sums + w * kSums));
        __syncwarp();
        if (lane == 0) barrier_arrive(barrier(kPartFree + set));
        if (plan.split == 1) {
          write(tile, total);
        } else {
          if (round > 0) barrier_wait(barrier(kGatherFree + owner), (round - 1) & 1);
          store_in(in_block(base + plan.gather + (rank * kSums + mine) * 4, owner), total, in_block(barrier(kGather + part), owner));
        }
      } else if (plan.split > 1 && owner == rank) {
        if (lane == 0) barrier_expect(barrier(kGather + part), plan.split * 32 * 16);
        barrier_wait(barrier(kGather + part), round & 1);
        for (int r = 0; r < plan.split; ++r) add(total, *reinterpret_cast<const float4*>(shared + plan.gather + (r * kSums + mine) * 4));
        __syncwarp();
        if (lane < plan.split) barrier_arrive_in(in_block(barrier(kGatherFree + owner), lane));
        write(tile, total);
      }
    }
  }
  if (plan.split > 1) {  // shared memory must last while others write to it
    __syncwarp();
    cluster_sync();
  }
}

struct Linear : Base<fk::linear> {
  using Base::Base;
  // How K is shared depends on the number of rows.
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    const int rows = int(std::min<int64_t>(max.x->shape[0], kRowsMax + 1));
    need(rows <= kRowsMax, "up to 16 rows of x only");
    need(FK_DTYPE(weights.weight) == FK_DTYPE(max.x), "weight: the dtype of x only");
    need(FK_DTYPE(max.out) == FK_DTYPE(max.x) || FK_DTYPE(max.out) == FK_F32, "out: the dtype of x, or float32");
    need(!weights.bias.or_null || FK_DTYPE(weights.bias.or_null) == FK_DTYPE(max.out), "bias: the dtype of out only");
    need(init.in_features % 64 == 0, "in_features: a multiple of 64 only");
    need(init.in_features < (1 << 20) && plan_of(rows, int(init.in_features)).stages >= 2, "in_features: fewer for so many rows");
    need_aligned(max.x);
  }
  void prepare(const op::forward&, const fk_memory&) {
    // [K / 64, N, 64]: a box is 16 rows of kBox columns, in tiles of 64 columns.
    void* encode = nullptr;
    cudaDriverEntryPointQueryResult found{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found), "cuTensorMapEncodeTiled");
    const uint64_t k = uint64_t(init.in_features), sizes[3] = {64, uint64_t(init.out_features), uint64_t(cdiv(init.in_features, 64))};
    const uint64_t strides[2] = {k * 2, 128};
    const uint32_t box[3] = {64, kRows, kBox / 64}, steps[3] = {1, 1, 1};
    const auto type = FK_DTYPE(weights.weight) == FK_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    const CUresult made = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
        &map_, type, 3, const_cast<void*>(weights.weight->data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (made != CUDA_SUCCESS) throw std::runtime_error("cuTensorMapEncodeTiled: error " + std::to_string(int(made)));
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int m = int(a.x->shape[0]);
    if (!m) return;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      const auto run = [&](auto out_type) {
        using O = decltype(out_type);
        m <= 8 ? go<T, O, 1>(a, ctx) : go<T, O, 2>(a, ctx);
      };
      if (FK_DTYPE(a.out) == FK_F32) run(float{});
      else run(T{});
    });
  }

 private:
  template <class T, class O, int kTiles> void go(const op::forward& a, const fk_ctx& ctx) {
    const int m = int(a.x->shape[0]), k = int(init.in_features);
    const Plan plan = plan_of(m, k);
    const int threads = 32 * (kWarps + 1 + 2 * kTiles), tiles = int(cdiv(init.out_features, kRows));
    const unsigned grid = unsigned(std::min(clusters(few_rows<T, O, kTiles>, plan.split, threads), tiles) * plan.split);
    launch_clusters(few_rows<T, O, kTiles>, plan.split, grid, unsigned(threads), size_t(plan.bytes), ctx, map_, fk::data<T>(a.x), a.x->strides[0], fk::data<O>(weights.bias), fk::data<O>(a.out), m, int(init.out_features), k, plan);
  }
  // Clusters that the device holds at once; asked once per kernel and size of a cluster.
  template <class... P> static int clusters(void (*kernel)(P...), int split, int threads) {
    static std::mutex mutex;
    static std::map<std::pair<void*, int>, int> known;
    const std::lock_guard<std::mutex> lock(mutex);
    int& count = known[{reinterpret_cast<void*>(kernel), split}];
    if (count) return count;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedMax), "shared memory");
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {unsigned(split), 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = unsigned(split) * 256;
    config.blockDim = unsigned(threads);
    config.dynamicSmemBytes = kSharedMax;
    config.attrs = &attribute;
    config.numAttrs = 1;
    check(cudaOccupancyMaxActiveClusters(&count, kernel, &config), "occupancy");
    return count = std::max(count, 1);
  }
  static void check(cudaError_t status, const char* what) {
    if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
  }

  CUtensorMap map_{};
};
FK_OP(linear, Linear);

}  // namespace
