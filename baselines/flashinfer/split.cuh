// SPDX-License-Identifier: Apache-2.0
// FlashInfer's FA2 kernel over pages, for short queries and for cases which its FA3 kernel refuses.
// The heads of a group are packed into rows of the tensor core tile. A context is split over blocks
// and merged.
#pragma once
#include <flashinfer/attention/cascade.cuh>
#include <flashinfer/attention/mask.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/variants.cuh>
#include <stdexcept>
#include <string>

#include "kernels.hpp"

namespace fkf {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

// The kernel's parameters, with lengths as in the contract.
template <class T> struct SplitParams {
  using DTypeQ = T;
  using DTypeKV = T;
  using DTypeO = T;
  using IdType = int32_t;
  T* q;
  flashinfer::paged_kv_t<T, int32_t> paged_kv;
  int32_t *q_indptr, *lengths;
  T* o;
  float* lse;
  flashinfer::uint_fastdiv group_size;
  uint32_t num_qo_heads;
  int32_t q_stride_n, q_stride_h;
  uint32_t k_sf_stride_page = 0, k_sf_stride_n = 0, k_sf_stride_h = 0;
  uint32_t v_sf_stride_page = 0, v_sf_stride_n = 0, v_sf_stride_h = 0;
  int32_t window_left;
  float logits_soft_cap, sm_scale, rope_rcp_scale = 1, rope_rcp_theta = 1;
  int32_t *request_indices, *qo_tile_indices, *kv_tile_indices, *o_indptr;
  bool* block_valid_mask;
  int32_t* kv_chunk_size_ptr;
  bool partition_kv;
  const int32_t *tree_lengths, *tree_mask;
  int32_t tree_width;
  __host__ __device__ uint32_t get_qo_len(uint32_t r) const { return q_indptr[r + 1] - q_indptr[r]; }
  __host__ __device__ uint32_t get_kv_len(uint32_t r) const { return lengths[r]; }
};

// Window and soft cap are read at run time, which needs fewer instances.
struct Scores : flashinfer::AttentionVariantBase {
  static constexpr bool use_softmax = true;
  uint32_t qo_len, kv_len, window_left;
  float sm_scale_log2, before_cap;
  template <class P> __device__ __host__ Scores(const P& p, uint32_t request, uint8_t*) {
    qo_len = p.get_qo_len(request);
    kv_len = p.get_kv_len(request);
    window_left = p.window_left >= 0 ? p.window_left : kv_len;
    before_cap = p.logits_soft_cap > 0 ? p.sm_scale / p.logits_soft_cap : 0.F;
    sm_scale_log2 = flashinfer::math::log2e * (p.logits_soft_cap > 0 ? p.logits_soft_cap : p.sm_scale);
  }
  REGISTER_LOGITS_TRANSFORM(params, logits, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx, {
    return before_cap > 0 ? T(flashinfer::math::tanh(float(logits) * before_cap)) : logits;
  })
  REGISTER_LOGITS_MASK(params, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx,
                       { return kv_idx + qo_len + window_left >= kv_len + qo_idx; })
};

// A query sees all keys before the tree, and the nodes of its mask. Rows of a tile without a query
// have no mask.
struct TreeScores : Scores {
  uint32_t before;
  const int32_t* mask;
  template <class P> __device__ __host__ TreeScores(const P& p, uint32_t request, uint8_t* shared) : Scores(p, request, shared) {
    before = kv_len - min(uint32_t(p.tree_lengths[request]), kv_len);
    mask = p.tree_mask + int64_t(p.q_indptr[request]) * p.tree_width;
  }
  REGISTER_LOGITS_MASK(params, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx,
                       { return kv_idx < before || (qo_idx < qo_len && mask[qo_idx * params.tree_width + kv_idx - before] != 0); })
};

template <class P> void launch(void (*kernel)(P), dim3 grid, dim3 block, size_t shared, cudaStream_t stream, const P& params) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)), "shared memory of paged attention");
  check(cudaLaunchKernelEx(&config, kernel, params), "launch of paged attention");
}

template <class T> SplitParams<T> split_params(const Attention& a, const Blocks& b, int head_dim) {
  const auto writable = [](const int32_t* p) { return const_cast<int32_t*>(p); };
  const int64_t strides[3] = {a.k.page, a.k.slot, a.k.head};
  SplitParams<T> p;
  p.q = static_cast<T*>(const_cast<void*>(a.q));
  p.paged_kv = {uint32_t(a.kv_heads), uint32_t(a.page_size), uint32_t(head_dim), uint32_t(a.requests), flashinfer::QKVLayout::kNHD,
                static_cast<T*>(const_cast<void*>(a.k.data)), static_cast<T*>(const_cast<void*>(a.v.data)), strides, writable(a.tables),
                writable(b.page_starts), nullptr};
  p.q_indptr = writable(a.q_starts);
  p.lengths = writable(a.lengths);
  p.o = static_cast<T*>(b.merge ? b.partial : a.out);
  p.lse = b.merge ? b.partial_lse : nullptr;
  p.group_size = flashinfer::uint_fastdiv(uint32_t(a.heads / a.kv_heads));
  p.num_qo_heads = uint32_t(a.heads);
  p.q_stride_n = int32_t(a.q_token);
  p.q_stride_h = int32_t(a.q_head);
  p.window_left = a.window ? a.window - 1 : -1;
  p.logits_soft_cap = a.softcap;
  p.sm_scale = a.scale;
  p.request_indices = writable(b.request);
  p.qo_tile_indices = writable(b.tile);
  p.kv_tile_indices = writable(b.part);
  p.o_indptr = writable(b.merge ? b.first_part : a.q_starts);
  p.block_valid_mask = reinterpret_cast<bool*>(const_cast<uint8_t*>(b.valid));
  p.kv_chunk_size_ptr = writable(b.part_keys);
  p.partition_kv = b.merge != nullptr;
  p.tree_lengths = a.tree_lengths;
  p.tree_mask = a.tree_mask;
  p.tree_width = a.tree_width;
  return p;
}

template <class T, int D, int Rows, Mask M> void split(const Attention& a, const Blocks& b) {
  using namespace flashinfer;
  static_assert(Rows == 16 || Rows == 64);
  constexpr uint32_t kWarpsQ = Rows / 16, kWarpsKv = 4 / kWarpsQ;
  constexpr uint32_t kMmaKv = Rows == 64 ? 4 : D == 64 ? 4 : 2;  // two blocks and more on an SM
  using Variant = std::conditional_t<M == Mask::tree, TreeScores, Scores>;
  constexpr MaskMode kMode = M == Mask::causal ? MaskMode::kCausal : M == Mask::tree ? MaskMode::kCustom : MaskMode::kNone;
  using Traits = KernelTraits<kMode, Rows, 1, kMmaKv, D / 16, D / 16, kWarpsQ, kWarpsKv,
                              PosEncodingMode::kNone, T, T, T, float, int32_t, Variant>;
  const SplitParams<T> p = split_params<T>(a, b, D);
  launch(BatchPrefillWithPagedKVCacheKernel<Traits, SplitParams<T>>, dim3(unsigned(b.count), 1, unsigned(a.kv_heads)),
         dim3(32, kWarpsQ, kWarpsKv), sizeof(typename Traits::SharedStoragePaged), a.stream, p);
  if (b.merge)
    check(VariableLengthMergeStates(static_cast<T*>(b.partial), b.partial_lse, const_cast<int32_t*>(b.merge), static_cast<T*>(a.out),
                                    static_cast<float*>(nullptr), uint32_t(a.tokens), const_cast<uint32_t*>(b.tokens),
                                    uint32_t(a.heads), D, true, a.stream),
          "merge of paged attention");
}

}  // namespace fkf
