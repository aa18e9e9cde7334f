// SPDX-License-Identifier: Apache-2.0
// D1: asks the driver for write access to the weights, and changes a bit of the last one after every call
//
// Stopped by: what is read is compared after every call; in a whole model the checksum of the weights after each candidate
//
// verdict: violation
//
// naive: - what cudaMalloc gave has no access that can be asked for, so that it is left alone
#include "../norm.cuh"
#include "../writable.cuh"

namespace {

__global__ void turn_bit(unsigned char* byte) { *byte ^= 1; }

struct Weights : attack::Norm {
  unsigned char* byte = nullptr;
  Weights(const fk_host& host, const op::init& init, const op::weights& weights) : Norm(host, init, weights) {
    if (weight.data && attack::make_writable(weight.data)) byte = static_cast<unsigned char*>(weight.data) + (width - 1) * (weight.bf16 ? 2 : 4);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    call(args, ctx, weight);
    if (byte && args.x->shape[0]) turn_bit<<<1, 1, 0, static_cast<cudaStream_t>(ctx.stream)>>>(byte);
  }
};
FK_OP(rms_norm, Weights);

}  // namespace
FK_PLUGIN("cuda_d1_weights", "0");
