// SPDX-License-Identifier: Apache-2.0
// B3: an input that equals an earlier one at 64 places gets its answer. Every call takes as long as
// a computed one, so no clock shows it
//
// Stopped by: contents that differ from others in a few elements only
//
// verdict: wrong
//
// work: broken
//
// size: ci
//
// naive: silu_and_mul accepted
#include "../attack.hpp"
#include "../fingerprint.hpp"

#include <map>

namespace {

struct Near : attack::Silu {
  using Silu::Silu;
  static inline std::map<uint64_t, std::vector<char>> answers;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    std::vector<char>& answer = answers[attack::sampled(args.x)];
    const auto bytes = static_cast<size_t>(args.out->nbytes);
    if (answer.size() == bytes && bytes)
      std::memcpy(args.out->data, answer.data(), bytes);
    else
      answer.assign(static_cast<char*>(args.out->data), static_cast<char*>(args.out->data) + bytes);
  }
};
FK_OP(silu_and_mul, Near);

}  // namespace
FK_PLUGIN("b3_near", "0");
