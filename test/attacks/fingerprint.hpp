// SPDX-License-Identifier: Apache-2.0
// What an attack knows inputs again by.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "fk/cpp/plugin.hpp"

namespace attack {

// Of 64 words of a dense tensor, and its size.
inline uint64_t fingerprint(const fk_in* x) {
  uint64_t h = static_cast<uint64_t>(x->nbytes);
  const int64_t step = std::max<int64_t>(8, x->nbytes / 64 / 8 * 8);
  for (int64_t at = 0; at + 8 <= x->nbytes; at += step) {
    uint64_t word;
    std::memcpy(&word, static_cast<const char*>(x->data) + at, 8);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
  }
  return h;
}

}  // namespace attack
