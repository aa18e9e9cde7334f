// SPDX-License-Identifier: Apache-2.0
// B3: keeps the answers to a fifth of the rows by a hash of the input. So new inputs take only a
// little longer than known ones
//
// Stopped by: the extra time of calls on new inputs is added to the time
//
// verdict: slower same cannot_tell
//
// work: honest
//
// size: ci
//
// naive: silu_and_mul accepted
#include "../attack.hpp"
#include "../fingerprint.hpp"

#include <map>

namespace {

struct Part : attack::Silu {
  using Silu::Silu;
  static inline std::map<uint64_t, std::vector<char>> answers;
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t part = rows(args) / 5;
    const auto bytes = static_cast<size_t>(rows(args) ? args.out->nbytes / rows(args) * part : 0);
    std::vector<char>& answer = answers[attack::fingerprint(args.x)];
    if (answer.size() == bytes && bytes) {
      std::memcpy(args.out->data, answer.data(), bytes);
      attack::silu_rows(args.x, args.out, width, part, rows(args));
      return;
    }
    honest(args);
    answer.assign(static_cast<char*>(args.out->data), static_cast<char*>(args.out->data) + bytes);
  }
};
FK_OP(silu_and_mul, Part);

}  // namespace
FK_PLUGIN("b3_part", "0");
