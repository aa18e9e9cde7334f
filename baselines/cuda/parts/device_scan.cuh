// SPDX-License-Identifier: Apache-2.0
// Prefix sums and sorts over a whole device by CUB, and scratch memory in parts.
#pragma once
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "launch.cuh"

namespace fkc {

struct PlusInt64 {
  __host__ __device__ int64_t operator()(int64_t a, int64_t b) const { return a + b; }
};

// Each function takes `bytes` of `temporary` memory. If `temporary` is null, the function only sets
// `bytes`.
inline void exclusive_sum(void* temporary, size_t& bytes, const int32_t* of, int64_t* to, int count,
                          cudaStream_t stream) {
  check(cub::DeviceScan::ExclusiveScan(temporary, bytes, of, to, PlusInt64{}, int64_t{0}, count,
                                       stream),
        "a scan");
}
// In place.
inline void exclusive_sum(void* temporary, size_t& bytes, int32_t* of, int count,
                          cudaStream_t stream) {
  check(cub::DeviceScan::ExclusiveSum(temporary, bytes, of, of, count, stream), "a scan");
}
// By the lowest `bits` of the keys. Equal keys keep their order.
inline void sort_pairs(void* temporary, size_t& bytes, const uint64_t* keys, uint64_t* sorted,
                       const int32_t* values, int32_t* sorted_values, int count, int bits,
                       cudaStream_t stream) {
  check(cub::DeviceRadixSort::SortPairs(temporary, bytes, keys, sorted, values, sorted_values,
                                        count, 0, bits, stream),
        "a sort");
}

// Divides scratch memory into arrays which start at multiples of 256 bytes. Without memory it only
// counts.
class ScratchArena {
 public:
  explicit ScratchArena(void* memory) : memory_(static_cast<char*>(memory)) {}
  template <class T>
  T* take(int64_t count) {
    char* const at = memory_ ? memory_ + used_ : nullptr;
    used_ += (count * int64_t(sizeof(T)) + 255) / 256 * 256;
    return reinterpret_cast<T*>(at);
  }
  int64_t used() const { return used_; }

 private:
  char* memory_;
  int64_t used_ = 0;
};

}  // namespace fkc
