// SPDX-License-Identifier: Apache-2.0
// B2: keeps the first answer of a shape on the device and copies it out for every later call
//
// Stopped by: the audit of captured graphs: copies from memory that was not given; fresh contents for
// every call, every timed output compared
//
// verdict: graph_unsafe
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

#include <map>

namespace {

struct Shape : attack::Silu {
  using Silu::Silu;
  std::map<int64_t, void*> answers;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    void*& answer = answers[rows(args)];
    const auto bytes = size_t(args.out->nbytes);
    if (answer) return attack::check(cudaMemcpyAsync(args.out->data, answer, bytes, cudaMemcpyDeviceToDevice, stream(ctx)));
    honest(args, stream(ctx));
    if (!bytes || cudaMalloc(&answer, bytes) != cudaSuccess) return;
    attack::check(cudaMemcpyAsync(answer, args.out->data, bytes, cudaMemcpyDeviceToDevice, stream(ctx)));
  }
};
FK_OP(silu_and_mul, Shape);

}  // namespace
FK_PLUGIN("cuda_b2_shape", "0");
