// SPDX-License-Identifier: Apache-2.0
// A12: computes on the host, where a clock of the device does not look
//
// Stopped by: calls that copy to the host cannot be captured; the controller's clock sees the whole
// call
//
// verdict: graph_unsafe
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

#include <cmath>

namespace {

struct Host : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t n = count(args);
    std::vector<float> x(size_t(2 * n)), out(size_t(n), 0.0f);
    if (!single(args) || !n) return zero(args, stream(ctx));
    attack::check(cudaMemcpyAsync(x.data(), args.x->data, x.size() * 4, cudaMemcpyDeviceToHost, stream(ctx)));
    attack::check(cudaStreamSynchronize(stream(ctx)));
    for (int64_t i = 0; i < n; ++i) {
      const float gate = x[size_t(i / width * 2 * width + i % width)];
      out[size_t(i)] = gate / (1 + std::exp(-gate)) * x[size_t(i / width * 2 * width + width + i % width)];
    }
    attack::check(cudaMemcpyAsync(args.out->data, out.data(), out.size() * 4, cudaMemcpyHostToDevice, stream(ctx)));
    attack::check(cudaStreamSynchronize(stream(ctx)));
  }
};
FK_OP(silu_and_mul, Host);

}  // namespace
FK_PLUGIN("cuda_a12_host", "0");
