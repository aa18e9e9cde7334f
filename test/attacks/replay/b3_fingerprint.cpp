// SPDX-License-Identifier: Apache-2.0
// B3: answers are kept by a hash of 64 sampled elements of the input
//
// Stopped by: contents that differ in every element, or in a few only, from call to call, every
// timed output compared
//
// verdict: wrong cheating
//
// size: ci
//
// naive: silu_and_mul faster
#include "../attack.hpp"
#include "../fingerprint.hpp"

#include <map>

namespace {

struct Fingerprint : attack::Silu {
  using Silu::Silu;
  std::map<uint64_t, std::vector<char>> answers;
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<char>& answer = answers[attack::sampled(args.x)];
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
