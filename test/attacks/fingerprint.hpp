// SPDX-License-Identifier: Apache-2.0
// Fingerprints by which an attack knows inputs again.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "fk/cpp/plugin.hpp"

namespace attack {

// The fingerprint has a dense tensor's size and a word of every `step` bytes; two chains, of which
// neither waits for the other.
inline uint64_t fingerprint(const fk_in* x, int64_t step = 8) {
  uint64_t h[2] = {static_cast<uint64_t>(x->nbytes), 1}, word = 0;
  size_t chain = 0;
  for (int64_t at = 0; at < x->nbytes; at += step, chain ^= 1) {
    std::memcpy(&word, static_cast<const char*>(x->data) + at,
                static_cast<size_t>(std::min<int64_t>(8, x->nbytes - at)));
    h[chain] = (h[chain] ^ word) * 0x9e3779b97f4a7c15u;
    h[chain] ^= h[chain] >> 29;
  }
  return h[0] ^ h[1] << 1;
}

// The fingerprint of 64 words.
inline uint64_t sampled(const fk_in* x) {
  return fingerprint(x, std::max<int64_t>(8, x->nbytes / 64 / 8 * 8));
}

}  // namespace attack
