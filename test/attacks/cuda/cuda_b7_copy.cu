// SPDX-License-Identifier: Apache-2.0
// B7: copies the output from memory of its own, where an earlier owner may have left it
//
// Stopped by: the audit of captured graphs: copies from outside of the memory that was given;
// outputs compared
//
// verdict: graph_unsafe
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

struct Copy : attack::Silu {
  using Silu::Silu;
  void* found = nullptr;
  void prepare(const op::forward& max, const fk_memory&) { attack::check(cudaMalloc(&found, size_t(max.out->nbytes) + 256)); }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    attack::check(cudaMemcpyAsync(args.out->data, found, size_t(args.out->nbytes), cudaMemcpyDeviceToDevice, stream(ctx)));
  }
};
FK_OP(silu_and_mul, Copy);

}  // namespace
FK_PLUGIN("cuda_b7_copy", "0");
