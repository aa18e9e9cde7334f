// SPDX-License-Identifier: Apache-2.0
// B3: keeps answers by a hash of the input; while it works on unknown inputs, and only then, the
// clock of its process stands still
//
// Stopped by: calls on unseen contents take the time by the controller's clock
//
// verdict: cheating slower same cannot_tell
//
// work: honest
//
// size: ci
//
// naive: silu_and_mul accepted
#include "../attack.hpp"
#include "../fingerprint.hpp"
#include "../slow_clock.hpp"

#include <map>

namespace {

struct Remembers : attack::Silu {
  static inline std::map<uint64_t, std::vector<char>> answers;
  Remembers(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    attack::slow_clock();
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const auto bytes = static_cast<size_t>(args.out->nbytes);
    const int64_t start = attack::true_ns();
    std::vector<char>& answer = answers[attack::fingerprint(args.x)];
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
