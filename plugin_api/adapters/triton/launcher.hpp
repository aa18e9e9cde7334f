// SPDX-License-Identifier: Apache-2.0
// An op whose kernels are cubins, binaries that Triton compiled ahead of time. build.py generates
// the op's tables, the class `Plan`: the values that a call passes to kernels, the kernels, and the
// variants in the author's order. `Op` below chooses the first variant that takes a call and
// launches its kernels.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fk/cpp/plugin.hpp"

namespace fk_triton {

// Functions in the author's expressions (grids, conditions). They round as Python does; division by
// 0 gives 0.
constexpr int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}
constexpr int64_t floor_mod(int64_t a, int64_t b) { return b == 0 ? 0 : a - floor_div(a, b) * b; }
constexpr int64_t cdiv(int64_t a, int64_t b) { return -floor_div(-a, b); }
template <class A, class B>
constexpr auto min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
constexpr auto max(A a, B b) {
  return a < b ? b : a;
}
constexpr int64_t next_power_of_2(int64_t n) {
  int64_t power = 1;
  while (power < n && power < (int64_t{1} << 62)) power *= 2;
  return power;
}
constexpr int64_t up_to_256(int64_t bytes) { return (bytes + 255) / 256 * 256; }
constexpr bool in_32_bits(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

// A tensor of a call; an absent one has dtype 0.
struct Tensor {
  const void* data = nullptr;
  int dtype = 0;
  bool aligned = false;  // data and all rows begin at multiples of 16 bytes, in every call
  const int64_t *shape = nullptr, *strides = nullptr;

  int64_t stride(int axis) const { return dtype ? strides[axis] : 0; }
  // True if no gap lies between the entries of `axis`. The axis must not be the last.
  bool compact(int axis) const {
    return !dtype || shape[axis] <= 1 || strides[axis] == shape[axis + 1] * strides[axis + 1];
  }
  // The largest offset of an element from `data`, in elements.
  int64_t reach(int axes) const {
    int64_t sum = 0;
    for (int axis = 0; dtype && axis < axes; ++axis) sum += (shape[axis] - 1) * strides[axis];
    return sum;
  }
};
inline Tensor tensor(const fk_in* view) {
  if (!view) return {};
  return {view->data, FK_DTYPE(view), fk_alignment(view) >= FK_ALIGNMENT, view->shape,
          view->strides};
}
inline Tensor tensor(const fk_out* view) { return tensor(fk_as_in(view)); }
inline Tensor tensor(fk_opt_in field) { return tensor(field.or_null); }
inline Tensor tensor(fk_opt_out field) { return field.or_null ? tensor(field.or_null) : Tensor{}; }

struct Grid {
  int64_t x, y, z;
  bool empty() const { return x <= 0 || y <= 0 || z <= 0; }
  bool fits() const { return x <= INT32_MAX && y <= 65535 && z <= 65535; }
};

// One cubin, compiled for compute capability `sm` (90 for 9.0). `shared` counts bytes of dynamic
// shared memory, `warps` warps of a block, `ctas` blocks of a cluster. The other three are 0 or 1:
//   exact        runs on `sm` alone, not on later capabilities of the same major
//   cooperative  all blocks of the grid must run at the same time
//   dependent    may start before the kernel ahead of it in the stream has ended
struct Code {
  const void* cubin;
  int32_t sm, exact, shared, warps, ctas, cooperative, dependent;
  int64_t global_scratch;  // bytes of device memory of each block
};
// A kernel by name, with one cubin for each compute capability.
struct Kernel {
  const char* name;
  const Code* codes;  // [count]
  int32_t count;

  // Bytes of scratch that a launch with `grid` may need, whichever cubin runs.
  int64_t global_scratch(const Grid& grid) const {
    int64_t most = 0;
    for (int32_t i = 0; i < count; ++i) most = max(most, codes[i].global_scratch * codes[i].ctas);
    return grid.empty() ? 0 : up_to_256(most * grid.x * grid.y * grid.z);
  }
};

inline void need(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

// A kernel on the current device. Loaded when made, so that a captured launch loads nothing.
class Loaded {
 public:
  Loaded(const Kernel& kernel, int32_t sm) {
    for (int32_t i = 0; i < kernel.count; ++i) {
      const Code& code = kernel.codes[i];
      const bool runs = code.exact ? code.sm == sm : code.sm / 10 == sm / 10 && code.sm <= sm;
      if (runs && (!code_ || code.sm > code_->sm)) code_ = &code;
    }
    if (!code_)
      throw std::runtime_error("it has no code for compute capability " + std::to_string(sm) +
                               ": build it with --arch " + std::to_string(sm));
    need(cudaLibraryLoadData(&library_, code_->cubin, nullptr, nullptr, 0, nullptr, nullptr, 0),
         "cudaLibraryLoadData");
    try {
      cudaKernel_t found{};
      need(cudaLibraryGetKernel(&found, library_, kernel.name), "cudaLibraryGetKernel");
      function_ = reinterpret_cast<const void*>(found);
      if (code_->shared > 48 << 10)
        need(cudaFuncSetAttribute(function_, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  code_->shared),
             "shared memory");
      if (code_->ctas > 8)
        need(cudaFuncSetAttribute(function_, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
             "cluster size");
      cudaFuncAttributes loaded{};
      need(cudaFuncGetAttributes(&loaded, function_), "cudaFuncGetAttributes");
    } catch (...) {
      (void)cudaLibraryUnload(library_);
      throw;
    }
  }
  ~Loaded() { (void)cudaLibraryUnload(library_); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  // `arguments` are addresses of the values, of both scratch pointers too.
  void launch(const Grid& grid, void** arguments, const fk_ctx& ctx) const {
    if (grid.empty()) return;
    cudaLaunchAttribute attributes[3];
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(grid.x * code_->ctas),
                          static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
    config.blockDim = dim3(static_cast<unsigned>(32 * code_->warps), 1, 1);
    config.dynamicSmemBytes = static_cast<size_t>(code_->shared);
    config.stream = static_cast<cudaStream_t>(ctx.stream);
    config.attrs = attributes;
    if (code_->ctas > 1) {
      cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim = {static_cast<unsigned>(code_->ctas), 1, 1};
    }
    if (code_->cooperative) {
      cudaLaunchAttribute& whole = attributes[config.numAttrs++];
      whole.id = cudaLaunchAttributeCooperative;
      whole.val.cooperative = 1;
    }
    if (code_->dependent) {
      cudaLaunchAttribute& early = attributes[config.numAttrs++];
      early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      early.val.programmaticStreamSerializationAllowed = 1;
    }
    need(cudaLaunchKernelExC(&config, function_, arguments), "a launch");
  }

 private:
  const Code* code_ = nullptr;
  cudaLibrary_t library_{};
  const void* function_ = nullptr;
};

// Kernels of an instance by number; absent where no variant of the instance needs one.
using Kernels = std::vector<std::unique_ptr<Loaded>>;

// One entry of DTYPES with one of VARIANTS.
template <class Call>
struct Variant {
  bool (*dtypes)(const Call&);           // and optional tensors
  bool (*fixed)(const Call&);            // conditions that are the same in all calls of an instance
  bool (*varying_or_null)(const Call&);  // the others; null: it takes every call
  bool (*fits)(const Call&);             // 32 bits, and the limits of a grid
  int64_t (*scratch)(const Call&);       // bytes
  void (*run)(const Kernels&, const Call&, const fk_ctx&);
  const int32_t* kernels;
  int32_t count;
};

// The plugin's class of one op (fk/cpp/plugin.hpp). prepare() loads the kernels of all variants
// that an instance may need; forward() runs the first variant that takes the call.
template <class Plan>
class Op {
 public:
  using op = typename Plan::op;
  using Call = typename Plan::Call;
  static constexpr fk_claims claims = Plan::claims;

  static void supports(const typename op::init& init, const typename op::weights& weights,
                       const typename op::forward& most, fk_need& need) {
    if (Plan::refusal) throw fk::unsupported{Plan::refusal};
    const Call call = Plan::read(init, weights, most);
    bool known = false, taken = false;
    for (const auto& variant : Plan::variants) {
      if (taken || !variant.dtypes(call)) continue;
      known = true;
      if (!variant.fixed(call)) continue;
      need.scratch = max(need.scratch, variant.scratch(call));
      taken = takes_all(variant, call);
    }
    if (!known) throw fk::unsupported{Plan::no_dtypes};
    if (!taken) throw fk::unsupported{Plan::no_variant};
  }
  Op(const fk_host&, const typename op::init& init, const typename op::weights& weights)
      : init_(init), weights_(weights) {}

  void prepare(const typename op::forward& most, const fk_memory&) {
    const Call call = Plan::read(init_, weights_, most);
    int device = 0, major = 0, minor = 0;
    need(cudaGetDevice(&device), "cudaGetDevice");
    need(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "the device");
    need(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "the device");
    kernels_.resize(std::size(Plan::kernels));
    for (const auto& variant : Plan::variants) {
      if (!variant.dtypes(call) || !variant.fixed(call)) continue;
      for (int32_t i = 0; i < variant.count; ++i) {
        auto& kernel = kernels_[static_cast<size_t>(variant.kernels[i])];
        if (!kernel)
          kernel = std::make_unique<Loaded>(Plan::kernels[variant.kernels[i]], major * 10 + minor);
      }
      variants_.push_back(&variant);
      if (takes_all(variant, call)) break;
    }
  }
  void forward(const typename op::forward& args, const fk_ctx& ctx) {
    const Call call = Plan::read(init_, weights_, args);
    for (const auto* variant : variants_) {
      if (variant->varying_or_null && !variant->varying_or_null(call)) continue;
      if (!variant->fits(call)) continue;
      if (variant->scratch(call) > ctx.scratch_bytes)
        throw std::runtime_error("a smaller call needs more scratch than the largest one");
      return variant->run(kernels_, call, ctx);
    }
    throw std::runtime_error(Plan::no_variant);
  }

 private:
  // True if the variant takes every call of an instance, so that later variants are not needed.
  static bool takes_all(const Variant<Call>& variant, const Call& most) {
    return !variant.varying_or_null && variant.fits(most);
  }
  const typename op::init& init_;
  const typename op::weights& weights_;
  Kernels kernels_;
  std::vector<const Variant<Call>*> variants_;
};

}  // namespace fk_triton
