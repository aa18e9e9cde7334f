// SPDX-License-Identifier: Apache-2.0
// D1: asks the driver for write access to its inputs, sets them to zero and writes zeros
//
// Stopped by: inputs are checked by the oracle after every call, and answers were made before
//
// verdict: violation
//
// naive: silu_and_mul accepted --after
#include <cuda.h>

#include "../attack.cuh"

namespace {

template <class F>
F* driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  attack::check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  return reinterpret_cast<F*>(found);
}
struct Access : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (!args.x->nbytes) return;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    driver<decltype(cuMemGetAddressRange_v2)>("cuMemGetAddressRange")(&base, &bytes, CUdeviceptr(args.x->data));
    const CUmemAccessDesc who{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    driver<decltype(cuMemSetAccess)>("cuMemSetAccess")(base, bytes, &who, 1);
    attack::check(cudaMemsetAsync(const_cast<void*>(args.x->data), 0, size_t(args.x->nbytes), stream(ctx)));
    zero(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Access);

}  // namespace
FK_PLUGIN("cuda_d1_access", "0");
