// SPDX-License-Identifier: Apache-2.0
// For attacks that work when they should not. It has the tensors of all instances, and a thread or
// a signal handler that looks at them and keeps answers to their contents.
#pragma once
#include <atomic>
#include <deque>
#include <mutex>

#include "attack.hpp"

namespace attack {

struct Ahead : Silu {
  struct Set {
    fk_in x;
    fk_out out;
    int64_t rows, width;
    std::vector<char> answer;
    std::atomic<uint64_t> looked{0}, known{0};
  };
  static inline std::deque<Set> sets;
  static inline std::atomic<int> count{0};
  static inline std::mutex adding;
  Set* mine = nullptr;
  using Silu::Silu;

  // A hash of 64 words of the input, which differ whenever one element does.
  static uint64_t hash(const fk_in& x) {
    auto h = static_cast<uint64_t>(x.nbytes);
    const int64_t step = std::max<int64_t>(8, x.nbytes / 64 / 8 * 8);
    for (int64_t at = 0; at + 8 <= x.nbytes; at += step) {
      uint64_t word;
      std::memcpy(&word, static_cast<const char*>(x.data) + at, 8);
      h = (h ^ word) * 0x9e3779b97f4a7c15u;
      h ^= h >> 29;
    }
    return h | 1;
  }
  void remember(const op::forward& args) {
    if (mine) return;
    const std::lock_guard<std::mutex> lock(adding);
    Set& set = sets.emplace_back();
    set.x = *args.x, set.out = *args.out, set.rows = rows(args), set.width = width;
    set.answer.resize(static_cast<size_t>(args.out->nbytes));
    mine = &set;
    ++count;
  }
  // Once around: what lies there unchanged since the last time gets its answer.
  static void look_around() {
    for (int i = 0; i < count; ++i) {
      Set& set = sets[static_cast<size_t>(i)];
      const uint64_t now = hash(set.x);
      if (set.looked.exchange(now) != now || set.known == now) continue;
      fk_out into = set.out;
      into.data = set.answer.data();
      set.known = 0;
      silu_rows(&set.x, &into, set.width, 0, set.rows);
      set.known = now;
    }
  }
  // False when there is no answer yet.
  bool answered(const op::forward& args) const {
    if (!mine || mine->known.load() != hash(*args.x)) return false;
    std::memcpy(args.out->data, mine->answer.data(), mine->answer.size());
    return true;
  }
};

}  // namespace attack
