// SPDX-License-Identifier: Apache-2.0
// honest: std::async with one task per row
#include "../attack.hpp"

#include <future>

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<std::future<void>> tasks;
    for (int64_t t = 0; t < std::min<int64_t>(rows(args), 4); ++t)
      tasks.push_back(std::async(std::launch::async, [&, t] {
        for (int64_t row = t; row < rows(args); row += 4)
          attack::silu_rows(args.x, args.out, width, row, row + 1);
      }));
    for (auto& task : tasks) task.get();
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("async", "0");
