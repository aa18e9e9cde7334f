// SPDX-License-Identifier: Apache-2.0
// B3: keeps the answers to a fifth of the rows by a hash of the input, so that new inputs take only
// a little longer than known ones
//
// Stopped by: what calls on new inputs take longer is added to the time
//
// work: honest
//
// size: ci
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <map>

namespace {

struct Part : attack::Silu {
  using Silu::Silu;
  static inline std::map<uint64_t, std::vector<char>> answers;
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
    const int64_t part = rows(args) / 5;
    const auto bytes = static_cast<size_t>(rows(args) ? args.out->nbytes / rows(args) * part : 0);
    std::vector<char>& answer = answers[hash(args.x)];
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
