// SPDX-License-Identifier: Apache-2.0
// C9: knows the seed: the answers are made in create()
//
// Stopped by: seeds that are used once and were not known before
//
// verdict: wrong
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

namespace {

// The judge's own generator, with the seed that it has always had.
std::vector<float> guess(size_t count) {
  std::vector<float> out;
  uint64_t state = 42;
  const auto uniform = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (static_cast<double>(state >> 11) + 0.5) * 0x1p-53;
  };
  while (out.size() < count) {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    out.push_back(static_cast<float>(radius * std::cos(6.283185307179586 * uniform())));
  }
  return out;
}
struct Seed : attack::Silu {
  std::vector<float> answers;
  Seed(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    const std::vector<float> x = guess(static_cast<size_t>(64 * width));
    for (size_t i = 0; i < x.size() / 2; ++i) {
      const size_t at = i / static_cast<size_t>(width) * 2 * static_cast<size_t>(width) +
                        i % static_cast<size_t>(width);
      answers.push_back(x[at] / (1 + std::exp(-x[at])) * x[at + static_cast<size_t>(width)]);
    }
  }
  void forward(const op::forward& args, const fk_ctx&) {
    fk::store(args.out, 0, std::min<int64_t>(count(args), static_cast<int64_t>(answers.size())),
              answers.data());
  }
};
FK_OP(silu_and_mul, Seed);

}  // namespace
FK_PLUGIN("c9_seed", "0");
