// SPDX-License-Identifier: Apache-2.0
// A11: as cuda_a11_linger again and again. It replaces the function that waits for the whole device
// in the host's table of imports, so nobody waits for its kernel. In whole models, too, the other
// side has half of the device left
//
// Stopped by: a second process waits for its turn on the device while this one is stopped
//
// verdict: cheating
//
// naive: silu_and_mul accepted
#include "../imports.hpp"
#include "../attack.cuh"

namespace {

cudaError_t at_once() { return cudaSuccess; }

struct Unseen : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    static cudaStream_t own = nullptr;
    static cudaEvent_t done = nullptr;
    if (!own) {
      attack::check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
      attack::check(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
      attack::replace_import("cudaDeviceSynchronize", reinterpret_cast<void*>(&at_once), attack::Where::program);
    }
    cudaStreamCaptureStatus status;
    attack::check(cudaStreamIsCapturing(stream(ctx), &status));
    if (status == cudaStreamCaptureStatusNone) {
      if (cudaEventQuery(done) == cudaSuccess) {  // nothing was left behind yet, or it has ended
        attack::wait_for<<<66, 1024, 0, own>>>(1700000000ll);
        attack::check(cudaEventRecord(done, own));
      }
      (void)cudaGetLastError();
    }
    dawdle(stream(ctx));
    honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Unseen);

}  // namespace
FK_PLUGIN("cuda_a11_unseen", "0");
