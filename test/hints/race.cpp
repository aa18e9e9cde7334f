// SPDX-License-Identifier: Apache-2.0
// wrong: one element of a call depends on the calls before
// hint: differs_from_run_to_run
// says: differs from run to run
// next: Look for a missing barrier or atomic, for state that a call leaves to the next one, and for
// reads of unwritten memory.
#include "../attacks/attack.hpp"

namespace {

struct Race : attack::Silu {
  using Silu::Silu;
  static constexpr fk_claims claims{
      FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 0, 0, FK_ACCUMULATE_F32, 0, 0, nullptr};
  int64_t calls = 0;  // in place of threads, whose order nobody can choose
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    const float lost = 7;
    if (const int64_t all = count(args)) fk::store(args.out, calls++ * 5 % all, 1, &lost);
  }
};
FK_OP(silu_and_mul, Race);

}  // namespace
FK_PLUGIN("wrong_race", "0");
