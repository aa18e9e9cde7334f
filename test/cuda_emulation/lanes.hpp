// SPDX-License-Identifier: Apache-2.0
// What lanes of a warp have from each other.
#pragma once
#include <map>

#include "machine.hpp"

namespace fk_emulation {

// What the lanes of a warp bring for each other, by cluster.
template <class T>
std::vector<T>& brought(size_t count) {
  static std::map<const Cluster*, std::vector<T>> all;
  auto& mine = all[machine.running];
  if (mine.size() < count) mine.resize(count);
  return mine;
}

template <class T>
T exchange(T v, unsigned partner) {
  auto& values = brought<T>(cluster().fibers.size());
  values[machine.current] = v;
  wait(warp());
  const T got = values[machine.current / 32 * 32 + partner];
  wait(warp());
  return got;
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
  wait(warp());
}

}  // namespace fk_emulation
