// SPDX-License-Identifier: Apache-2.0
// A10: reserves the last cache for its inputs, so that they are warm where a flush should have made
// them cold
//
// Stopped by: the device's limits and the stream's window are checked after every call. Before
// samples, persisting lines are reset and their limit is set to nothing
//
// verdict: violation
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

struct Persisting : attack::Silu {
  using Silu::Silu;
  bool asked = false;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (!asked) {
      asked = true;
      attack::check(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 16 << 20));  // more than a device begins with; 32 MiB are too much for an H100
    }
    cudaStreamAttrValue value = {};
    value.accessPolicyWindow.base_ptr = const_cast<void*>(args.x->data);
    value.accessPolicyWindow.num_bytes = size_t(std::min<int64_t>(args.x->nbytes, 16 << 20));
    value.accessPolicyWindow.hitRatio = 1;
    value.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    value.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    attack::check(cudaStreamSetAttribute(stream(ctx), cudaStreamAttributeAccessPolicyWindow, &value));
    dawdle(stream(ctx));
    honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Persisting);

}  // namespace
FK_PLUGIN("cuda_a10_persisting", "0");
