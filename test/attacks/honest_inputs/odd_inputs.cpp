// SPDX-License-Identifier: Apache-2.0
// honest: a careful way, a millisecond long, for rows with zeros, denormals or large numbers. No
// model calls it with such rows, so its time does not count
//
// ratio: 0.02 at least
#include <unistd.h>

#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<float> row(static_cast<size_t>(2 * width));
    bool odd = false;
    for (int64_t t = 0; t < rows(args) && !odd; ++t) {
      fk::load(args.x, t * 2 * width, 2 * width, row.data());
      odd = std::any_of(row.begin(), row.end(),
                        [](float v) { return std::abs(v) < 1e-6f || std::abs(v) > 8; });
    }
    if (odd) usleep(1000);
    honest(args);
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("odd_inputs", "0");
