// SPDX-License-Identifier: Apache-2.0
// The factors of the tokens of a chunk in ssd_chunk_scan.
#pragma once
#include "recurrence.cuh"

namespace fkc {

// For every token of a chunk: its step, and the decays up to this token with their logarithm in two
// float32. `to_end` has the decays behind the token times its step, `all` the decay of the chunk.
template <int kChunk> struct Factors {
  float step[kChunk], high[kChunk], low[kChunk], from_start[kChunk], to_end[kChunk], all[4];

  // Called by one warp. If one token decays by e^-1000 and the next ones hardly, a sum in one
  // float32 would lose the next ones.
  template <class T, class S> __device__ void find(const Scan<T, S>& s, const float (&dt)[kChunk / 32], int count, float a) {
    constexpr int kOwn = kChunk / 32;
    const int lane = int(threadIdx.x) % 32;
    double sum[kOwn], before = 0;
    float steps[kOwn];
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      const bool there = lane * kOwn + k < count;
      steps[k] = there ? s.step(dt[k]) : 0.F;
      before += there ? double(fmaxf(steps[k] * a, -1024.F)) : 0.;  // e^-1024 is 0 too, and sums stay finite
      sum[k] = before;
    }
#pragma unroll
    for (int k = 1; k < 32; k *= 2) {
      const double other = __shfl_sync(0xffffffffu, before, lane - k);
      if (lane >= k) before += other;
    }
    const double last = __shfl_sync(0xffffffffu, before, 31);
    before -= sum[kOwn - 1];
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      const int at = lane * kOwn + k;
      const double here = before + sum[k];
      step[at] = steps[k];
      high[at] = float(here);
      low[at] = float(here - double(float(here)));
      from_start[at] = __expf(float(here));
      to_end[at] = __expf(float(last - here)) * steps[k];
    }
    if (lane == 0) all[0] = __expf(float(last));
  }
  __device__ float weight(int of, int at) const { return __expf(high[at] - high[of] + (low[at] - low[of])) * step[of]; }
};

}  // namespace fkc
