// SPDX-License-Identifier: Apache-2.0
// FlashInfer's latent attention for Hopper. Persistent blocks, one or two for a tile of queries,
// take the items of the plan. After a barrier of the whole grid they merge the parts.
#include <flashinfer/attention/mla_hopper.cuh>
#include <stdexcept>
#include <string>

#include "kernels.hpp"

namespace fkf {
namespace {

// The beginning of a request's pages in the tables, by item. The width of the tables is known only
// at the call.
struct FirstPage {
  const int32_t* request;
  int32_t width;
  __device__ int32_t operator[](uint32_t item) const { return request[item] * width; }
};

// The kernel's parameters, under its names.
template <class T> struct Params {
  using DTypeQ = T;
  using DTypeKV = T;
  using DTypeO = T;
  using IdType = int32_t;
  T *q_nope, *q_pe, *ckv, *kpe, *partial_o;
  float* partial_lse;
  T* final_o;
  float* final_lse;
  FirstPage kv_indptr;
  int32_t *q_indptr, *partial_indptr, *q_len, *kv_len, *q_start, *kv_start, *kv_end, *work_indptr;
  int32_t *merge_packed_offset_start, *merge_packed_offset_end, *merge_partial_packed_offset_start, *merge_partial_packed_offset_end,
      *merge_partial_stride, *kv_indices;
  flashinfer::uint_fastdiv block_size, num_heads;
  uint32_t q_nope_stride_n, q_nope_stride_h, q_pe_stride_n, q_pe_stride_h, ckv_stride_page, ckv_stride_n, kpe_stride_page, kpe_stride_n,
      o_stride_n, o_stride_h;
  float sm_scale, ckv_scale = 1, kpe_scale = 1;
  bool return_lse_base_on_e = false;
};

}  // namespace

template <class T> void latent_attention(const LatentAttention& a, const LatentWork& w) {
  const auto writable = [](const int32_t* p) { return const_cast<int32_t*>(p); };
  const auto typed = [](const void* p) { return static_cast<T*>(const_cast<void*>(p)); };
  Params<T> p;
  p.q_nope = typed(a.q_latent), p.q_pe = typed(a.q_pe);
  p.ckv = typed(a.cache), p.kpe = p.ckv + kLatent;
  p.partial_o = typed(w.partial), p.partial_lse = w.partial_lse;
  p.final_o = typed(a.out), p.final_lse = nullptr;
  p.kv_indptr = {w.request, int32_t(a.width)};
  p.q_indptr = writable(w.q_first), p.partial_indptr = writable(w.partial_row);
  p.q_len = writable(w.queries), p.kv_len = writable(w.keys);
  p.q_start = writable(w.row), p.kv_start = writable(w.key_first), p.kv_end = writable(w.key_end);
  p.work_indptr = writable(w.bounds);
  p.merge_packed_offset_start = writable(w.merge_row), p.merge_packed_offset_end = writable(w.merge_end);
  p.merge_partial_packed_offset_start = writable(w.parts_row), p.merge_partial_packed_offset_end = writable(w.parts_end);
  p.merge_partial_stride = writable(w.parts_stride);
  p.kv_indices = writable(a.tables);
  p.block_size = flashinfer::uint_fastdiv(uint32_t(a.page_size));
  p.num_heads = flashinfer::uint_fastdiv(uint32_t(a.heads));
  p.q_nope_stride_n = uint32_t(a.q_latent_token), p.q_nope_stride_h = uint32_t(a.q_latent_head);
  p.q_pe_stride_n = uint32_t(a.q_pe_token), p.q_pe_stride_h = uint32_t(a.q_pe_head);
  p.ckv_stride_page = p.kpe_stride_page = uint32_t(a.page);
  p.ckv_stride_n = p.kpe_stride_n = uint32_t(a.slot);
  p.o_stride_n = uint32_t(a.heads * kLatent), p.o_stride_h = uint32_t(kLatent);
  p.sm_scale = a.scale;
  const cudaError_t status =
      flashinfer::mla::BatchMLAPageAttentionHopper<flashinfer::MaskMode::kCausal, kLatent, kRotary>(p, uint32_t(w.per_tile), uint32_t(w.teams), a.stream);
  if (status != cudaSuccess) throw std::runtime_error(std::string("launch of mla_attention: ") + cudaGetErrorString(status));
}

template void latent_attention<__nv_bfloat16>(const LatentAttention&, const LatentWork&);
template void latent_attention<__half>(const LatentAttention&, const LatentWork&);

}  // namespace fkf
