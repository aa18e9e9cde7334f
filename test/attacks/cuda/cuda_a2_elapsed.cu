// SPDX-License-Identifier: Apache-2.0
// A2: writes its own function over cudaEventElapsedTime in the host's table of imports
//
// Stopped by: the verdict's clock is in another process; the two clocks must agree
//
// verdict: cheating
//
// naive: silu_and_mul faster
#include "../imports.hpp"
#include "../attack.cuh"

#include <dlfcn.h>
#include <unistd.h>

namespace {

cudaError_t quick(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 1e-3f;
  return cudaSuccess;
}
struct Elapsed : attack::Silu {
  using Silu::Silu;
  Elapsed(const fk_host& host, const op::init& init, const op::weights& weights) : Silu(host, init, weights) {
    attack::replace_import("cudaEventElapsedTime", reinterpret_cast<void*>(&quick), attack::Where::program);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    dawdle(stream(ctx));
    honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Elapsed);

}  // namespace
FK_PLUGIN("cuda_a2_elapsed", "0");
