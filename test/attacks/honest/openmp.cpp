// SPDX-License-Identifier: Apache-2.0
// honest: OpenMP with as many threads as the host allows
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  const int threads;
  Honest(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights), threads(host.cpu_threads) {}
  void forward(const op::forward& args, const fk_ctx&) {
#pragma omp parallel for num_threads(threads)
    for (int64_t t = 0; t < rows(args); ++t) attack::silu_rows(args.x, args.out, width, t, t + 1);
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("openmp", "0");
