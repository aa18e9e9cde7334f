// SPDX-License-Identifier: Apache-2.0
// F1: opens a library of ready products while it runs and lets it do the work
//
// Stopped by: the sandbox opens system libraries only; the lint knows what is linked
//
// verdict: wrong
//
// naive: -
#include "../attack.hpp"
#include "fk/ops/linear.h"

#include <dlfcn.h>

namespace {

struct Library {
  using op = fk::linear;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  using Product = void (*)(int, int, int, int, int, int, float, const float*, int, const float*,
                           int, float, float*, int);
  Product product = nullptr;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (FK_DTYPE(max.x) != FK_F32 || FK_DTYPE(weights.weight) != FK_F32 ||
        FK_DTYPE(max.out) != FK_F32 || weights.bias.or_null)
      throw fk::unsupported{"f32 without bias only"};
  }
  Library(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {
    for (const char* name : {"libopenblas.so.0", "libmkl_rt.so", "libcblas.so.3", "libblas.so.3"})
      if (void* library = product ? nullptr : dlopen(name, RTLD_NOW))
        product = reinterpret_cast<Product>(dlsym(library, "cblas_sgemm"));
  }
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int m = static_cast<int>(args.x->shape[0]), n = static_cast<int>(init.out_features),
              k = static_cast<int>(init.in_features);
    if (product && m)
      product(101, 111, 112, m, n, k, 1, fk::data<float>(args.x),
              static_cast<int>(args.x->strides[0]), fk::data<float>(weights.weight), k, 0,
              fk::data<float>(args.out), n);
  }
};
FK_OP(linear, Library);

}  // namespace
FK_PLUGIN("f1_library", "0");
