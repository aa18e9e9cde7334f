// SPDX-License-Identifier: Apache-2.0
// silu_and_mul done right in a process whose host waits and reads its clock by functions of the attack's own.
#pragma once
#include "attack.cuh"
#include "imports.hpp"

namespace attack {

struct Unwaited : Silu {
  Unwaited(const fk_host& host, const op::init& init, const op::weights& weights, cudaError_t (*launch)(cudaGraphExec_t, cudaStream_t),
           cudaError_t (*wait_for_event)(cudaEvent_t), cudaError_t (*wait_for_all)(), cudaError_t (*elapsed)(float*, cudaEvent_t, cudaEvent_t))
      : Silu(host, init, weights) {
    const auto replace = [](const char* name, auto* by) { replace_import(name, reinterpret_cast<void*>(by), Where::program); };
    replace("cudaGraphLaunch", launch);
    replace("cudaEventSynchronize", wait_for_event);
    replace("cudaDeviceSynchronize", wait_for_all);
    replace("cudaEventElapsedTime", elapsed);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) { honest(args, stream(ctx)); }
};

}  // namespace attack
