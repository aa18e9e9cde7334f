// SPDX-License-Identifier: Apache-2.0
// A ring of stages in shared memory, which some threads fill and others empty. At `base` every stage has a barrier that says that it is
// full, 64 bytes behind that one that says that it is empty; the stages begin kFirst bytes behind `base`. Each side has its own copy.
#pragma once
#include <cstdint>

namespace fkc {

template <int kCount, int kFirst, int kBytes> struct StageRing {
  static constexpr int kStages = kCount, kStage = kBytes;
  static_assert(kStages <= 8 && kFirst >= 128);
  uint32_t base;
  int stage = 0, turn = 0;
  __device__ uint32_t full() const { return base + stage * 8; }
  __device__ uint32_t empty(int of) const { return base + 64 + of * 8; }
  __device__ uint32_t at() const { return base + kFirst + stage * kStage; }
  __device__ void next() {
    if (++stage == kStages) stage = 0, ++turn;
  }
};

}  // namespace fkc
