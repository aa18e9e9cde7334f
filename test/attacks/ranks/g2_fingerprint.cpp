// SPDX-License-Identifier: Apache-2.0
// G2: answers are kept by a hash of 64 elements of this rank's input: where all ranks have seen
// theirs, nobody is asked
//
// Stopped by: a third of the contents is kept for calls that are timed without having been seen
//
// naive: all_reduce accepted
//
// work: honest
#include <cstring>
#include <map>

#include "../ranks.hpp"

namespace {

std::map<uint64_t, std::vector<char>> answers;  // of all instances

struct Fingerprint : attack::AllReduce {
  using AllReduce::AllReduce;
  static uint64_t hash(const fk_in* x) {
    auto h = static_cast<uint64_t>(x->nbytes);
    const int64_t step = std::max<int64_t>(4, x->nbytes / 64 / 4 * 4);
    for (int64_t at = 0; at + 4 <= x->nbytes; at += step) {
      uint32_t word;
      std::memcpy(&word, static_cast<const char*>(x->data) + at, sizeof word);
      h = (h ^ word) * 0x9e3779b97f4a7c15u;
    }
    return h;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    std::vector<char>& answer = answers[hash(args.x) + static_cast<uint64_t>(init.reduction)];
    const auto bytes = static_cast<size_t>(args.out->nbytes);
    if (answer.size() == bytes && bytes) {
      std::memcpy(args.out->data, answer.data(), bytes);
      return;
    }
    attack::work_for_long();
    honest(args, ctx);
    answer.assign(static_cast<char*>(args.out->data), static_cast<char*>(args.out->data) + bytes);
  }
};
FK_OP(all_reduce, Fingerprint);

}  // namespace
FK_PLUGIN("g2_fingerprint", "0");
