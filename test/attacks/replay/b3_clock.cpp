// SPDX-License-Identifier: Apache-2.0
// B3: answers are kept by a hash of 64 elements of the input; for inputs that it does not know, and
// only for those, the clock of its process stands still while it works
//
// Stopped by: calls on contents that nobody has seen take what the broker's clock saw of them
//
// work: honest
//
// size: ci
//
// naive: silu_and_mul accepted
#include "../attack.hpp"
#include "../slow_clock.hpp"

#include <map>

namespace {

struct Remembers : attack::Silu {
  static inline std::map<uint64_t, std::vector<char>> answers;
  Remembers(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    attack::slow_clock();
  }
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
    const auto bytes = static_cast<size_t>(args.out->nbytes);
    const int64_t start = attack::true_ns();
    std::vector<char>& answer = answers[hash(args.x)];
    const bool known = answer.size() == bytes;
    if (!known) {
      honest(args);
      answer.assign(static_cast<char*>(args.out->data), static_cast<char*>(args.out->data) + bytes);
    }
    if (bytes) std::memcpy(args.out->data, answer.data(), bytes);
    if (!known) attack::hidden_ns += (attack::true_ns() - start) / 20 * 19;
  }
};
FK_OP(silu_and_mul, Remembers);

}  // namespace
FK_PLUGIN("b3_clock", "0");
