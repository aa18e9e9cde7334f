// SPDX-License-Identifier: Apache-2.0
// A5: a host thread launches the kernel a millisecond after the call has returned
//
// Stopped by: the output is compared when the given stream is done; eager and captured calls must
// agree
//
// verdict: wrong violation
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

#include <unistd.h>
#include <thread>

namespace {

struct Later : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    std::thread([this, x = *args.x, out = *args.out, n = count(args)] {
      usleep(1000);
      cudaStream_t own;
      cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
      try {
        honest(x, out, n, own);
      } catch (const std::exception&) {  // what was called may be gone
      }
      cudaStreamSynchronize(own);
      cudaStreamDestroy(own);
    }).detach();
  }
};
FK_OP(silu_and_mul, Later);

}  // namespace
FK_PLUGIN("cuda_a5_thread", "0");
