// SPDX-License-Identifier: Apache-2.0
// F1: opens cuBLAS while it runs, which no linter sees, and lets it do the work
//
// work: broken
//
// Stopped by: the files that a process has mapped to run code from are looked at from outside after its calls
//
// verdict: cheating
//
// naive: linear accepted
#include "../attack.cuh"
#include "fk/ops/linear.h"

#include <dlfcn.h>

namespace {

struct Library {
  using op = fk::linear;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_NEVER, 1, 0, FK_ACCUMULATE_F32, 0, 1, attack::kSm};
  using Create = int (*)(void**);
  using SetStream = int (*)(void*, cudaStream_t);
  using Product = int (*)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*, float*, int);
  const op::init& init;
  const op::weights& weights;
  static inline void* handle = nullptr;  // one for all instances, each of which would have memory of its own
  SetStream set_stream = nullptr;
  Product product = nullptr;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max, fk_need&) {
    if (FK_DTYPE(max.x) != FK_F32 || FK_DTYPE(weights.weight) != FK_F32 || FK_DTYPE(max.out) != FK_F32 || weights.bias.or_null)
      throw fk::unsupported{"f32 without bias only"};
  }
  Library(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {
    void* library = nullptr;
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so"})
      if (!library) library = dlopen(name, RTLD_NOW);
    if (!library) return;
    set_stream = reinterpret_cast<SetStream>(dlsym(library, "cublasSetStream_v2"));
    product = reinterpret_cast<Product>(dlsym(library, "cublasSgemm_v2"));
    if (const auto create = reinterpret_cast<Create>(dlsym(library, "cublasCreate_v2")); create && !handle) (void)create(&handle);
  }
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int m = int(args.x->shape[0]), n = int(init.out_features), k = int(init.in_features);
    const float one = 1, zero = 0;
    if (!handle || !m) return;
    set_stream(handle, static_cast<cudaStream_t>(ctx.stream));
    constexpr int kAsIs = 0, kTransposed = 1;
    product(handle, kTransposed, kAsIs, n, m, k, &one, fk::data<float>(weights.weight), k, fk::data<float>(args.x), int(args.x->strides[0]),
            &zero, fk::data<float>(args.out), n);
  }
};
FK_OP(linear, Library);

}  // namespace
FK_PLUGIN("cuda_f1_library", "0");
