// SPDX-License-Identifier: Apache-2.0
// B8: computes nothing at first: its table of answers is the baseline's calls, whose inputs and
// outputs are still in the shared memory
//
// Stopped by: correctness comes before the baseline; unseen contents take longer
//
// verdict: illegal_access wrong crashed
//
// size: ci
//
// naive: -
#include "../ahead.hpp"

#include <map>

namespace {

struct Harvest : attack::Ahead {
  using Ahead::Ahead;
  static inline std::map<uint64_t, std::vector<char>> answers;
  void forward(const op::forward& args, const fk_ctx&) {
    remember(args);
    for (int i = 0; i < count; ++i) {
      const Set& set = sets[static_cast<size_t>(i)];
      if (set.out.data == args.out->data) continue;
      const auto* from = static_cast<const char*>(set.out.data);
      // The first element tells an answer from poison.
      float expected[1], there[1];
      fk::load(&set.x, 0, 1, expected);
      float up[1];
      fk::load(&set.x, set.width, 1, up);
      expected[0] = expected[0] / (1 + std::exp(-expected[0])) * up[0];
      fk_in view{};
      std::memcpy(&view, &set.out, std::min(sizeof view, sizeof set.out));
      fk::load(&view, 0, 1, there);
      if (std::abs(there[0] - expected[0]) > 0.01f * std::abs(expected[0]) + 1e-6f) continue;
      std::vector<char>& answer = answers[hash(set.x)];
      if (answer.empty()) answer.assign(from, from + set.out.nbytes);
    }
    const auto found = answers.find(hash(*args.x));
    if (found != answers.end())
      std::memcpy(args.out->data, found->second.data(), found->second.size());
    else
      honest(args);
  }
};
FK_OP(silu_and_mul, Harvest);

}  // namespace
FK_PLUGIN("b8_harvest", "0");
