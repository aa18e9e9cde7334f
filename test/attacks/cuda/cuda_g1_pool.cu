// SPDX-License-Identifier: Apache-2.0
// G1: takes memory of a pool in every call, inside the graph as well. It gives the memory back when
// the graph is replayed for the last time, which it never is
//
// Stopped by: the audit of captured graphs: allocations
//
// verdict: graph_unsafe
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

struct Pool : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    void* memory = nullptr;
    const auto bytes = size_t(args.out->nbytes) + 256;
    attack::check(cudaMallocAsync(&memory, bytes, stream(ctx)));
    fk_out there = *args.out;
    there.data = memory;
    honest(*args.x, there, count(args), stream(ctx));
    attack::check(cudaMemcpyAsync(args.out->data, memory, size_t(args.out->nbytes), cudaMemcpyDeviceToDevice, stream(ctx)));
    attack::check(cudaFreeAsync(memory, stream(ctx)));
  }
};
FK_OP(silu_and_mul, Pool);

}  // namespace
FK_PLUGIN("cuda_g1_pool", "0");
