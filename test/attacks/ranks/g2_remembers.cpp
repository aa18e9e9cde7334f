// SPDX-License-Identifier: Apache-2.0
// G2: the first call of a shape asks the others, later ones copy its answer
//
// Stopped by: contents that change between calls of an instance
//
// verdict: wrong
//
// naive: all_reduce accepted
#include <map>

#include "../ranks.hpp"

namespace {

struct Remembers : attack::AllReduce {
  using AllReduce::AllReduce;
  std::map<int64_t, std::vector<float>> answers;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    std::vector<float>& answer = answers[count(args)];
    if (!answer.empty()) return fk::store(args.out, 0, count(args), answer.data());
    honest(args, ctx);
    answer.resize(static_cast<size_t>(count(args)));
    fk::load(args.out, 0, count(args), answer.data());
  }
};
FK_OP(all_reduce, Remembers);

}  // namespace
FK_PLUGIN("g2_remembers", "0");
