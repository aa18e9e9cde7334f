// SPDX-License-Identifier: Apache-2.0
// Maps memory into parts of a reserved range of addresses, with the driver's virtual memory
// functions.
#include "core/device/cuda/parted.hpp"

#include <algorithm>

#include "core/device/cuda/driver.hpp"

namespace fk::cuda {

void* Parted::map(int device, int64_t bytes, std::span<const HeldPart> parts) {
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  size_t unit = 0;
  FK_DRIVER(cuMemGetAllocationGranularity, &unit, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  const auto whole = [&](int64_t n) { return (static_cast<size_t>(n) + unit - 1) / unit * unit; };
  CUdeviceptr begin = 0;
  FK_DRIVER(cuMemAddressReserve, &begin, whole(bytes), 0, 0, 0);
  Range& range = ranges_[begin];
  range.size = whole(bytes);
  size_t done = 0;  // all parts before this byte are mapped
  for (const HeldPart& part : parts) {
    const size_t from = std::max(done, static_cast<size_t>(part.at) / unit * unit);
    const size_t to = whole(part.at + part.bytes);
    if (from >= to) continue;
    CUmemGenericAllocationHandle handle = 0;
    const CUresult made =
        driver<decltype(cuMemCreate)>("cuMemCreate")(&handle, to - from, &kind, 0);
    if (made == CUDA_ERROR_OUT_OF_MEMORY) {
      unmap(reinterpret_cast<void*>(begin));
      return nullptr;
    }
    check_driver(made, "cuMemCreate");
    FK_DRIVER(cuMemMap, begin + from, to - from, 0, handle, 0);
    FK_DRIVER(cuMemRelease, handle);  // the mapping keeps the memory alive
    range.mapped.emplace_back(begin + from, to - from);
    const CUmemAccessDesc who{{CU_MEM_LOCATION_TYPE_DEVICE, device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    FK_DRIVER(cuMemSetAccess, begin + from, to - from, &who, 1);
    done = to;
  }
  return reinterpret_cast<void*>(begin);
}

bool Parted::unmap(void* memory) {
  const auto range = ranges_.find(reinterpret_cast<CUdeviceptr>(memory));
  if (range == ranges_.end()) return false;
  (void)cudaDeviceSynchronize();  // cudaFree() does the same
  for (const auto& [at, size] : range->second.mapped) FK_DRIVER(cuMemUnmap, at, size);
  FK_DRIVER(cuMemAddressFree, range->first, range->second.size);
  ranges_.erase(range);
  return true;
}

}  // namespace fk::cuda
