// SPDX-License-Identifier: Apache-2.0
// G1: takes eight GiB of device memory when it is made, for answers that it might keep
//
// work: broken
//
// Stopped by: memory that create() and prepare() take beyond their request is looked at, and comes
// back with the end of the process
//
// verdict: memory
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

struct Create : attack::Silu {
  Create(const fk_host& host, const op::init& init, const op::weights& weights) : Silu(host, init, weights) {
    static void* kept = nullptr;
    if (!kept) attack::check(cudaMalloc(&kept, size_t(8) << 30));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) { honest(args, stream(ctx)); }
};
FK_OP(silu_and_mul, Create);

}  // namespace
FK_PLUGIN("cuda_g1_create", "0");
