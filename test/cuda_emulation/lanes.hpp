// SPDX-License-Identifier: Apache-2.0
// Exchanges between the lanes of a warp.
#pragma once
#include <map>

#include "machine.hpp"

namespace fk_emulation {

// Places for what the lanes of a warp bring for each other, in its turns' order: one half of them
// in every second turn. A lane that is ahead returns to this half when all lanes have taken the
// present values. So one barrier is enough.
template <class T>
T* brought(size_t count) {
  static std::map<const Cluster*, std::vector<T>> all;
  static const Cluster* of = nullptr;
  static std::vector<T>* mine = nullptr;
  if (of != machine.running) mine = &all[of = machine.running];
  if (mine->size() < 2 * count) mine->resize(2 * count);
  return mine->data() + (warp().passed % 2 ? count : 0);
}

template <class T>
T exchange(T v, unsigned partner) {
  T* const values = brought<T>(cluster().fibers.size());
  values[machine.current] = v;
  wait(warp());
  return values[machine.current / 32 * 32 + partner];
}
// mma.sync.m16n8k4 in double, as baselines/cuda_reference/device.cuh describes it.
inline void multiply(double (&c)[4], double a0, double a1, double b) {
  struct Operands {
    double left[16][4], right[4][8];
  };
  const unsigned lane = machine.current % 32, g = lane / 4, t = lane % 4;
  Operands& of = brought<Operands>(cluster().warps.size())[machine.current / 32];
  of.left[g][t] = a0;
  of.left[g + 8][t] = a1;
  of.right[t][g] = b;
  wait(warp());
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned k = 0; k < 4; ++k) c[i] += of.left[g + i / 2 * 8][k] * of.right[k][2 * t + i % 2];
}

}  // namespace fk_emulation
