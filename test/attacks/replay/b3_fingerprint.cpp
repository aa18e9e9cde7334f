// SPDX-License-Identifier: Apache-2.0
// B3: answers are kept by a hash of 64 sampled elements of the input
//
// Stopped by: contents that differ in every element from call to call, every timed output compared
//
// naive: silu_and_mul faster
#include "../attack.hpp"

#include <map>

namespace {

struct Fingerprint : attack::Silu {
  using Silu::Silu;
  std::map<uint64_t, std::vector<char>> answers;
  static uint64_t hash(const fk_in* x) {
    uint64_t h = static_cast<uint64_t>(x->nbytes);
    const int64_t step = std::max<int64_t>(8, x->nbytes / 64 / 8 * 8);
    for (int64_t at = 0; at + 8 <= x->nbytes; at += step) {
      uint64_t word;
      std::memcpy(&word, static_cast<const char*>(x->data) + at, 8);
      h = (h ^ word) * 0x9e3779b97f4a7c15u;
    }
    return h;
  }
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<char>& answer = answers[hash(args.x)];
    const auto bytes = static_cast<size_t>(args.out->nbytes);
    if (answer.size() == bytes && bytes) {
      std::memcpy(args.out->data, answer.data(), bytes);
      return;
    }
    honest(args);
    answer.assign(static_cast<char*>(args.out->data), static_cast<char*>(args.out->data) + bytes);
  }
};
FK_OP(silu_and_mul, Fingerprint);

}  // namespace
FK_PLUGIN("b3_fingerprint", "0");
