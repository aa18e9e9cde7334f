// SPDX-License-Identifier: Apache-2.0
// Tensor maps for the emulation, with what the driver asks of them.
#pragma once
#include <cstdint>
#include <cstring>

#include "cuda_runtime.h"

enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };
enum CUtensorMapDataType { CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 };
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_128B };
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_NONE };
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE };

// Elements of two bytes in the 128-byte swizzle; sizes and boxes from the innermost dimension on.
struct CUtensorMap {
  const char* data;
  uint32_t rank;
  uint64_t sizes[5], strides[5];  // strides in bytes
  uint32_t box[5];
};
inline CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, uint32_t rank,
                                       void* data, const uint64_t* sizes, const uint64_t* strides,
                                       const uint32_t* box, const uint32_t* steps,
                                       CUtensorMapInterleave, CUtensorMapSwizzle,
                                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  if (!rank || rank > 5 || reinterpret_cast<uintptr_t>(data) % 16 || box[0] * 2 > 128)
    return CUDA_ERROR_INVALID_VALUE;
  *map = {static_cast<const char*>(data), rank, {}, {}, {}};
  for (uint32_t i = 0; i < rank; ++i) {
    map->sizes[i] = sizes[i];
    map->strides[i] = i ? strides[i - 1] : 2;
    map->box[i] = box[i];
    if (!sizes[i] || sizes[i] > uint64_t{1} << 32 || !box[i] || box[i] > 256 || steps[i] != 1 ||
        (i && (map->strides[i] % 16 || map->strides[i] >= uint64_t{1} << 40)))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };
inline constexpr unsigned long long cudaEnableDefault = 0;
inline cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** entry, unsigned,
                                                    unsigned long long,
                                                    cudaDriverEntryPointQueryResult*) {
  *entry = reinterpret_cast<void*>(&cuTensorMapEncodeTiled);
  return cudaSuccess;
}
