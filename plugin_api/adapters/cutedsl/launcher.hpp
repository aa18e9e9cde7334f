// SPDX-License-Identifier: Apache-2.0
// An op whose kernels CuTe DSL exported as objects. generate.py makes the table of objects. Each
// object has a function that launches, and functions that load its code into a device.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>

#include "fk/cpp/plugin.hpp"

namespace fk_cute {

inline void need(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

// A tensor as exported functions take it: every size, and every stride but the last, which is 1.
template <int Rank>
struct Tensor {
  void* data;
  int32_t shape[Rank];
  int64_t strides[Rank > 1 ? Rank - 1 : 1];
};
template <>
struct Tensor<1> {
  void* data;
  int32_t shape[1];
};
template <int Rank>
Tensor<Rank> tensor(const fk_in* view) {
  Tensor<Rank> out{};
  out.data = const_cast<void*>(view->data);
  for (int i = 0; i < Rank; ++i) out.shape[i] = static_cast<int32_t>(view->shape[i]);
  if constexpr (Rank > 1)
    for (int i = 0; i + 1 < Rank; ++i) out.strides[i] = view->strides[i];
  return out;
}
template <int Rank>
Tensor<Rank> tensor(const fk_out* view) {
  return tensor<Rank>(fk_as_in(view));
}
inline int dtype(const fk_in* view) { return view ? FK_DTYPE(view) : 0; }
inline int dtype(const fk_out* view) { return view ? FK_DTYPE(fk_as_in(view)) : 0; }
inline int dtype(fk_opt_in field) { return dtype(field.or_null); }
inline int dtype(fk_opt_out field) { return dtype(field.or_null); }
inline bool in_32_bits(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }
inline bool small(const fk_in* view) {
  for (int32_t i = 0; view && i < view->ndim; ++i)
    if (!in_32_bits(view->shape[i])) return false;
  return true;
}
inline bool small(const fk_out* view) { return small(fk_as_in(view)); }
inline bool small(fk_opt_in field) { return small(field.or_null); }
inline bool small(fk_opt_out field) { return small(field.or_null); }

// The exported code of one entry of DTYPES for one compute capability. `exact`: it runs on `sm`
// alone (its name ends in a), else also on later capabilities of the same major.
struct Code {
  int32_t entry, sm, exact;
  void (*init)(void**);
  void (*load)(void**);
};
// Loads the code into the current device, once in the process: its kernel handles are variables of
// the object. It stays until the process ends.
inline void load(const Code& code, std::once_flag& once) {
  std::call_once(once, [&] {
    static_assert(sizeof(cudaLibrary_t) == sizeof(void*), "a handle");
    auto* library = new cudaLibrary_t{};
    cudaError_t status = cudaSuccess;
    int32_t device = 0;
    need(cudaGetDevice(&device), "cudaGetDevice");
    struct {
      cudaLibrary_t** library;
      cudaError_t* status;
    } made{&library, &status};
    code.init(reinterpret_cast<void**>(&made));
    need(status, "the code cannot be loaded");
    struct {
      cudaLibrary_t** library;
      int32_t* device;
      cudaError_t* status;
    } loaded{&library, &device, &status};
    code.load(reinterpret_cast<void**>(&loaded));
    need(status, "the code cannot be loaded into the device");
  });
}
// The number of the code for this device and entry. Error without one.
template <size_t N>
int chosen(const Code (&codes)[N], int entry) {
  int device = 0, major = 0, minor = 0, best = -1;
  need(cudaGetDevice(&device), "cudaGetDevice");
  need(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "the device");
  need(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "the device");
  const int sm = major * 10 + minor;
  for (size_t i = 0; i < N; ++i) {
    const Code& code = codes[i];
    const bool runs = code.exact ? code.sm == sm : code.sm / 10 == major && code.sm <= sm;
    if (code.entry == entry && runs && (best < 0 || code.sm > codes[best].sm))
      best = static_cast<int>(i);
  }
  if (best < 0)
    throw std::runtime_error("it has no code for compute capability " + std::to_string(sm) +
                             ": build it with --arch " + std::to_string(sm));
  return best;
}

}  // namespace fk_cute
