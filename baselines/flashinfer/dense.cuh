// SPDX-License-Identifier: Apache-2.0
// FlashInfer's FA3 kernel (warp-specialised, wgmma) for long queries. FlashInfer's loader of pages
// copies with cp.async and is a tenth slower. This loader brings pages, or rows of a matrix, by
// TMA: kPiece rows and 64 channels at a time. Each piece of a tile has a lane of the producer warp.
#pragma once
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cutlass/bfloat16.h>
#include <cutlass/half.h>

#include <flashinfer/attention/hopper/attention_updater.cuh>
#include <flashinfer/attention/hopper/variants.cuh>
#include <flashinfer/attention/hopper/prefill_sm90.cuh>
#include <stdexcept>
#include <string>

#include "kernels.hpp"

namespace fkf {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

struct Scale {
  float sm_scale;
};

// A descriptor of boxes of `rows` x 64 channels in [pages, heads, slots, width].
inline CUtensorMap boxes(CUtensorMapDataType type, const Cache& c, int64_t pages, int64_t heads, int64_t slots, int64_t width, uint32_t rows) {
  static const auto encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result), "cuTensorMapEncodeTiled");
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
  }();
  CUtensorMap map;
  const cuuint64_t shape[4] = {cuuint64_t(width), cuuint64_t(slots), cuuint64_t(heads), cuuint64_t(pages)};
  const cuuint64_t strides[3] = {cuuint64_t(c.slot) * 2, cuuint64_t(c.head) * 2, cuuint64_t(c.page) * 2};
  const cuuint32_t box[4] = {64, rows, 1, 1}, step[4] = {1, 1, 1, 1};
  const CUresult status =
      encode(&map, type, 4, const_cast<void*>(c.data), shape, strides, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) throw std::runtime_error("cuTensorMapEncodeTiled: " + std::to_string(int(status)));
  return map;
}

// The work of a block: the list of plan(), with the device's lengths.
struct Scheduler {
  struct Params {
    const int32_t* bounds;
    const Tile* tiles;
    const int32_t *q_starts, *k_starts, *lengths;
    int width;
    cutlass::FastDivmod group;
  };
  struct WorkTileInfo {
    int q_tile, head, kv_head, q_start, k_start, q_len, kv_len, request, at, end;
    CUTLASS_DEVICE bool is_valid(const Params&) const { return at < end; }
    CUTLASS_DEVICE auto get_block_coord(const Params&) const {
      return cute::tuple{q_tile, head, kv_head, q_start, k_start, q_len, kv_len, request};
    }
  };
  static CUTLASS_DEVICE WorkTileInfo work(const Params& p, int at, int end) {
    WorkTileInfo w{};
    w.at = at;
    w.end = end;
    if (at >= end) return w;
    const Tile tile = p.tiles[at];
    const int r = tile.request;
    w.request = r;
    w.q_tile = tile.where >> 8;
    w.head = tile.where & 255;
    w.kv_head = p.group.divide(w.head);
    w.q_start = p.q_starts[r];
    w.q_len = p.q_starts[r + 1] - w.q_start;
    w.k_start = p.k_starts ? p.k_starts[r] : r * p.width;
    w.kv_len = p.k_starts ? p.k_starts[r + 1] - w.k_start : p.lengths[r];
    return w;
  }
  CUTLASS_DEVICE WorkTileInfo get_initial_work(const Params& p) const { return work(p, p.bounds[blockIdx.x], p.bounds[blockIdx.x + 1]); }
  template <bool> CUTLASS_DEVICE WorkTileInfo get_next_work(const Params& p, const WorkTileInfo& now) const { return work(p, now.at + 1, now.end); }
  CUTLASS_DEVICE void init_consumer() const {}
  CUTLASS_DEVICE void prefetch_next_work(const Params&, WorkTileInfo&) const {}
  CUTLASS_DEVICE void broadcast_next_work(WorkTileInfo&) const {}
};

template <class Traits, bool Causal, bool Window> struct Mainloop {
  using DTypeQ = typename Traits::DTypeQ;
  using DTypeKV = typename Traits::DTypeKV;
  static constexpr int CTA_Q = Traits::CTA_Q, CTA_KV = Traits::CTA_KV, kWidth = Traits::HEAD_DIM_QK, kHalves = kWidth / 64;
  using SmemLayoutQ = typename Traits::SmemLayoutQ;
  using TileShape = typename Traits::TileShape_QKD;
  using Shape = cute::Shape<int32_t, int32_t, int32_t>;
  using Stride = cute::Shape<int64_t, cute::_1, int64_t>;
  using Layout = cute::Layout<Shape, Stride>;
  using TMA_Q = decltype(cute::make_tma_copy(
      cute::SM90_TMA_LOAD{},
      cute::make_tensor(cute::make_gmem_ptr(static_cast<const DTypeQ*>(nullptr)), cute::repeat_like(Stride{}, int32_t(0)), Stride{}),
      SmemLayoutQ{}, cute::select<0, 2>(TileShape{}), cute::_1{}));

  static constexpr bool USE_TMA_LOAD_KV = true;
  using MainloopPipeline = typename Traits::MainloopPipeline;
  using PipelineParams = typename MainloopPipeline::Params;
  using PipelineState = typename MainloopPipeline::PipelineState;
  static constexpr uint32_t kBytesQ = cute::size(SmemLayoutQ{}) * 2;
  static constexpr uint32_t TmaTransactionBytesK = CTA_KV * kWidth * 2, TmaTransactionBytesV = TmaTransactionBytesK;
  using WarpScheduler = flashinfer::WarpScheduler<Traits, (Traits::HEAD_DIM_VO <= 128)>;

  struct Params {
    Layout layout_Q;
    TMA_Q tma_load_Q;
    CUtensorMap k, v, v_row;
    const int32_t* tables;
    int page_size, pages, piece;
    cutlass::FastDivmod by_page;
    int window_left;  // visible keys before a query's own key
    Scale additional_params;
  };

  CUTLASS_DEVICE static void prefetch_tma_descriptors(const Params& p) {
    cute::prefetch_tma_descriptor(p.tma_load_Q.get_tma_descriptor());
    for (const CUtensorMap* map : {&p.k, &p.v, &p.v_row}) cute::prefetch_tma_descriptor(reinterpret_cast<const cute::TmaDescriptor*>(map));
  }
  CUTLASS_DEVICE int get_num_kv_tiles(const Params&, int q_tile, int q_len, int kv_len) const {
    const int all = cute::ceil_div(kv_len, int{CTA_KV});
    return Causal ? min(all, cute::ceil_div((q_tile + 1) * CTA_Q + kv_len - q_len, int{CTA_KV})) : all;
  }

  // The place of a request's keys: pages, or rows from k_start on.
  struct Keys {
    const Params& p;
    int k_start, kv_len, head;
    // Page and row of key `token`. A key behind the last one gets a page behind the last one, which
    // reads as zeros.
    CUTLASS_DEVICE void locate(int token, int& row, int& page) const {
      if (token >= kv_len) row = 0, page = p.pages;
      else if (p.tables) {
        int slot;
        p.by_page(page, slot, token);
        row = slot;
        page = p.tables[k_start + page];
      } else row = k_start + token, page = 0;
    }
  };
  static CUTLASS_DEVICE void copy(const CUtensorMap& map, uint64_t* barrier, DTypeKV* to, int half, int row, int head, int page) {
    cute::SM90_TMA_LOAD_4D::copy(&map, barrier, uint64_t(cute::TMA::CacheHintSm90::EVICT_NORMAL), to, half * 64, row, head, page);
  }
  // Loads a tile of keys or values, by all lanes of a warp. Values behind the last one must be
  // zeros, as 0 times garbage may not be 0.
  template <bool Values> static CUTLASS_DEVICE void fetch(const Keys& keys, int tile, DTypeKV* shared, uint64_t* barrier) {
    const Params& p = keys.p;
    const int lane = threadIdx.x % 32, pieces = CTA_KV / p.piece, first = tile * CTA_KV;
    const CUtensorMap& map = Values ? p.v : p.k;
    for (int i = lane; i < pieces * kHalves; i += 32) {
      const int half = i / pieces, piece = i - half * pieces, token = first + piece * p.piece;
      if (Values && token < keys.kv_len && token + p.piece > keys.kv_len) continue;
      int row, page;
      keys.locate(token, row, page);
      copy(map, barrier, shared + half * CTA_KV * 64 + piece * p.piece * 64, half, row, keys.head, page);
    }
    if constexpr (Values) {
      if (first + CTA_KV <= keys.kv_len || keys.kv_len % p.piece == 0) return;
      const int token = keys.kv_len / p.piece * p.piece;  // the piece with the last key
      if (token < first) return;
      for (int i = lane; i < p.piece * kHalves; i += 32) {
        const int half = i / p.piece, offset = i - half * p.piece;
        int row, page;
        keys.locate(token + offset, row, page);
        copy(p.v_row, barrier, shared + half * CTA_KV * 64 + (token - first + offset) * 64, half, row, keys.head, page);
      }
    }
  }

  template <bool, class Coord, class SharedStorage>
  CUTLASS_DEVICE void load(const Params& p, MainloopPipeline pipeline_k, MainloopPipeline pipeline_v, PipelineState& write_k, PipelineState& write_v,
                           SharedStorage& shared, Scheduler&, const Scheduler::Params&, Scheduler::WorkTileInfo&, const Coord& coord, int work_idx) {
    using namespace cute;
    const auto [q_tile, head, kv_head, q_start, k_start, q_len, kv_len, request] = coord;
    const Keys keys{p, k_start, kv_len, kv_head};
    DTypeKV* const k = shared.smem_k.data();
    DTypeKV* const v = shared.smem_v.data();
    const auto put = [&](auto values, int tile) {
      constexpr bool kValues = decltype(values)::value;
      auto& pipeline = kValues ? pipeline_v : pipeline_k;
      PipelineState& write = kValues ? write_v : write_k;
      pipeline.producer_acquire(write);
      __syncwarp();
      fetch<kValues>(keys, tile, (kValues ? v : k) + write.index() * CTA_KV * kWidth, pipeline.producer_get_barrier(write));
      ++write;
    };
    int tile = get_num_kv_tiles(p, q_tile, q_len, kv_len) - 1;
    const int begin = Window ? flashinfer::get_swa_begin_kv_tile_idx<CTA_Q, CTA_KV>(p.window_left, q_tile, q_len, kv_len) : 0;
    put(false_type{}, tile);
    cutlass::arch::NamedBarrier::sync(Traits::NUM_MMA_THREADS + Traits::NUM_PRODUCER_THREADS, int(flashinfer::NamedBarriers::kQueryEmpty));
    if (elect_one_sync()) {
      Tensor sQ = make_tensor(make_smem_ptr(shared.smem_q.data()), SmemLayoutQ{});
      Tensor mQ = p.tma_load_Q.get_tma_tensor(p.layout_Q.shape());
      Tensor gQ = flashinfer::get_local_tile_tensor(mQ, select<0, 2>(TileShape{}), head, q_start, q_len)(_, _, q_tile);
      auto [from, to] = tma_partition(p.tma_load_Q, _0{}, cute::Layout<_1>{}, group_modes<0, 2>(make_tensor(sQ.data(), make_layout(sQ.layout(), cute::Layout<_1>{}))),
                                      group_modes<0, 2>(make_tensor(gQ.data(), make_layout(gQ.layout(), cute::Layout<_1>{}))));
      shared.barrier_Q.arrive_and_expect_tx(kBytesQ);
      cute::copy(p.tma_load_Q.with(reinterpret_cast<cutlass::arch::ClusterTransactionBarrier::ValueType&>(shared.barrier_Q), 0), from, to);
    }
    __syncwarp();
    shared.barrier_O.wait((work_idx + 1) % 2);  // values share memory with the output
    for (; tile > begin; --tile) {
      put(false_type{}, tile - 1);
      put(true_type{}, tile);
    }
    put(true_type{}, tile);
  }
  CUTLASS_DEVICE void load_tail(MainloopPipeline pipeline_k, MainloopPipeline pipeline_v, PipelineState& write_k, PipelineState& write_v) {
    if (!cute::elect_one_sync()) return;
    pipeline_k.producer_tail(write_k);
    pipeline_v.producer_tail(write_v);
  }
};

template <class T> struct Cutlass;
template <> struct Cutlass<__nv_bfloat16> {
  using type = cutlass::bfloat16_t;
  static constexpr CUtensorMapDataType code = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
};
template <> struct Cutlass<__half> {
  using type = cutlass::half_t;
  static constexpr CUtensorMapDataType code = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
};

template <class T, int D, bool Causal, bool Window> void dense(const Attention& a, const Tiles& work) {
  using E = typename Cutlass<T>::type;
  constexpr int kKeys = D == 128 && !Causal ? 192 : 128;
  using Traits = flashinfer::AttentionKernelTraits<true, D, D, dense_rows(D), kKeys, 2, E, E, E, int32_t, flashinfer::StandardAttention>;
  using Loop = Mainloop<Traits, Causal, Window>;
  using Epilogue = flashinfer::CollectiveEpilogue<Traits>;
  const auto layout_q = flashinfer::get_gmem_layout(int(a.tokens), a.heads, D, a.q_token, a.q_head);
  const auto* q = static_cast<const E*>(a.q);
  const int64_t slots = a.tables ? a.page_size : a.key_tokens, pages = a.tables ? a.pages : 1;
  const uint32_t piece = a.tables && a.page_size < kPiece ? uint32_t(a.page_size) : kPiece;
  const auto map = [&](const Cache& c, uint32_t rows) { return boxes(Cutlass<T>::code, c, pages, a.kv_heads, slots, D, rows); };
  typename Loop::Params loop{
      layout_q,
      cute::make_tma_copy(cute::SM90_TMA_LOAD{}, cute::make_tensor(cute::make_gmem_ptr(q), layout_q), typename Loop::SmemLayoutQ{},
                          cute::select<0, 2>(typename Traits::TileShape_QKD{}), cute::_1{}),
      map(a.k, piece), map(a.v, piece), map(a.v, 1), a.tables, a.page_size, int(pages), int(piece),
      cutlass::FastDivmod(a.tables ? a.page_size : 1), a.window - 1, {a.scale}};
  typename Epilogue::Params epilogue = Epilogue::to_underlying_arguments(
      {static_cast<E*>(a.out), flashinfer::get_gmem_layout(int(a.tokens), a.heads, D, int64_t(a.heads) * D, D), nullptr,
       flashinfer::get_lse_gmem_layout(int(a.tokens), a.heads)});
  typename Scheduler::Params schedule{work.bounds, work.tiles, a.q_starts, a.k_starts, a.lengths, a.width, cutlass::FastDivmod(a.heads / a.kv_heads)};
  auto* kernel = flashinfer::PrefillWithKVCacheKernel<Loop, Epilogue, Traits, Window, Causal, Scheduler>;
  const int shared = int(sizeof(typename Traits::SharedStorage));
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), "shared memory of attention");
  kernel<<<unsigned(work.blocks), Traits::NUM_WARPS * 32, size_t(shared), a.stream>>>(loop, epilogue, schedule);
  check(cudaGetLastError(), "launch of attention");
}

}  // namespace fkf
