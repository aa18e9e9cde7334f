// SPDX-License-Identifier: Apache-2.0
// honest: a tenth of a second of work in prepare(), as autotuning takes
#include "../attack.hpp"

#include <chrono>
#include <thread>

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  bool wide = true;
  void prepare(const op::forward&, const fk_memory&) {
    const auto begin = std::chrono::steady_clock::now();
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      volatile float sum = 0;
      const auto start = std::chrono::steady_clock::now();
      for (int k = 0; k < 10000; ++k) sum = sum + std::exp(-static_cast<float>(k & 7));
      const double took =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      wide = took < best, best = std::min(best, took);
    }
    std::this_thread::sleep_until(begin + std::chrono::milliseconds(10));
  }
  void forward(const op::forward& args, const fk_ctx&) {
    // Whatever the tuning chose: the values are the same.
    const int64_t step = wide ? std::max<int64_t>(rows(args), 1) : 1;
    for (int64_t t = 0; t < rows(args); t += step)
      attack::silu_rows(args.x, args.out, width, t, std::min(t + step, rows(args)));
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("slow_start", "0");
