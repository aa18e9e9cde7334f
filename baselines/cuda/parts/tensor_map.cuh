// SPDX-License-Identifier: Apache-2.0
// Tensor maps of TMA for elements of 16 bits. The inner 64 elements of a box are a row of 128
// bytes, in the 128-byte swizzle. Places outside of the tensor are zeros.
#pragma once
#include <cuda.h>

#include "launch.cuh"

namespace fkc {

// Sizes begin with the innermost one. Strides are in bytes and begin with the second one.
template <int kRank>
CUtensorMap tensor_map(const void* data, bool bf16, const uint64_t (&sizes)[kRank],
                       const uint64_t (&strides)[kRank - 1], const uint32_t (&box)[kRank]) {
  static void* const encode = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                           cudaEnableDefault, &found),
          "cuTensorMapEncodeTiled");
    return entry;
  }();
  CUtensorMap map{};
  const uint32_t steps[4] = {1, 1, 1, 1};
  // No promotion of reads to 256 bytes: promotion costs a tenth of the bandwidth here.
  const CUresult made = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      &map, bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, kRank,
      const_cast<void*>(data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (made != CUDA_SUCCESS)
    throw std::runtime_error("cuTensorMapEncodeTiled: error " + std::to_string(int(made)));
  return map;
}

// Rows of k elements, `step` elements apart, as [k / 64, rows, 64]. k is a multiple of 64. A box
// has `box_rows` rows of `box_k` elements (tma_load_k64()).
inline CUtensorMap tensor_map_k64(const void* data, bool bf16, int64_t rows, int64_t step,
                                  int64_t k, int box_rows, int box_k) {
  return tensor_map<3>(data, bf16, {64, uint64_t(rows), uint64_t(k / 64)},
                       {uint64_t(step) * 2, 128}, {64, uint32_t(box_rows), uint32_t(box_k / 64)});
}

}  // namespace fkc
