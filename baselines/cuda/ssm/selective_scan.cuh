// SPDX-License-Identifier: Apache-2.0
// The kernels of selective_scan and selective_scan_update. kLanes neighbouring lanes have a
// channel, with four elements of its state each.
#pragma once
#include "../parts/op.cuh"
#include "recurrence.cuh"

namespace fkc {

// Rows of tokens. Strides are in elements.
template <class T>
struct TokenRows {
  const T* at;
  int64_t token;
  bool aligned;
  template <int kCount>
  __device__ void load(int64_t t, int first, float (&to)[kCount]) const {
    load_run(at + t * token + first, aligned, to);
  }
};
template <class T>
TokenRows<T> token_rows(const fk_in* view) {
  if (!view) return {};
  return {fk::data<T>(view), view->strides[0], in_fours(view)};
}

// z.at, `starts` and `has_state` may be null.
template <class T, class S>
struct ChannelScan {
  TokenRows<T> x, dt, b, c, z;
  S* state;
  T* out;
  const float* a;
  Scalars d, dt_bias;
  const int32_t *starts, *slots, *has_state;
  int64_t slot, row;
  int requests, channels, softplus;

  // Above 20 the logarithm is its argument, to the last bit.
  __device__ float step(float of_dt) const {
    return softplus && of_dt < 20.F ? log1pf(__expf(of_dt)) : of_dt;
  }
};

constexpr int kScanChannels = 16, kScanTokens = 32;  // of a block; of a tile

// A block reads a tile of tokens ahead, so that loads are in flight during the scan of the tile
// before it. Steps are computed once, and outputs are gated and stored, in vectors of channels.
// long: the steps of a tile in their order
template <class T, class S, int kLanes>
__global__ void __launch_bounds__(kScanChannels* kLanes) scan_channels(const ChannelScan<T, S> s) {
  constexpr int kThreads = kScanChannels * kLanes, kStates = kLanes * 4;
  constexpr int kVectors = kScanTokens * kScanChannels / 8;  // of x in a tile: at most one a thread
  constexpr int kFours = kScanTokens * kLanes / kThreads;    // of b in a tile, of a thread
  static_assert(kVectors <= kThreads);
  __shared__ float2 steps[kScanTokens][kScanChannels];  // a step, and the step times x
  __shared__ float sums[kScanTokens][kScanChannels];
  __shared__ float4 bs[kScanTokens][kLanes], cs[kScanTokens][kLanes];
  wait_for_inputs();
  const int blocks = (s.channels + kScanChannels - 1) / kScanChannels;
  const int request = int(blockIdx.x) / blocks, channels = int(blockIdx.x) % blocks * kScanChannels;
  const int begin = s.starts[request], end = s.starts[request + 1];
  if (begin == end) return;
  const int thread = int(threadIdx.x), own = channels + thread / kLanes, lane = thread % kLanes;
  const bool mine = own < s.channels;
  S* const row = s.state + s.slots[request] * s.slot + own * s.row + lane * 4;
  float state[4] = {}, a[4] = {};
  if (mine) {
    if (s.has_state[request]) load_floats(row, state);
    load_floats(s.a + int64_t(own) * kStates + lane * 4, a);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] *= kLog2e;

  // As a loader, a thread has eight channels of a token.
  const int its_token = thread / 2, its_channel = channels + thread % 2 * 8;
  const bool loads = thread < kVectors && its_channel < s.channels;
  float d[8] = {}, bias[8] = {};
  if (loads) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      d[i] = s.d.of(its_channel + i), bias[i] = s.dt_bias.of(its_channel + i);
  }
  float x[8], dt[8], z[8], b[kFours][4], c[kFours][4];
  const auto fetch = [&](int first) {
    if (loads && first + its_token < end) {
      s.x.load(first + its_token, its_channel, x);
      s.dt.load(first + its_token, its_channel, dt);
      if (s.z.at) s.z.load(first + its_token, its_channel, z);
    }
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      const int at = i * kThreads + thread;
      b[i][0] = b[i][1] = b[i][2] = b[i][3] = c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
      if (first + at / kLanes >= end) continue;
      s.b.load(first + at / kLanes, at % kLanes * 4, b[i]);
      s.c.load(first + at / kLanes, at % kLanes * 4, c[i]);
    }
  };
  fetch(begin);
  for (int first = begin; first < end; first += kScanTokens) {
    const bool writes = loads && first + its_token < end;
    float own_x[8] = {}, gate[8] = {};
    if (thread < kVectors) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float step = writes ? s.step(dt[i] + bias[i]) : 0.F;
        own_x[i] = writes ? x[i] : 0.F;
        gate[i] = writes && s.z.at ? silu(z[i]) : 1.F;
        steps[its_token][thread % 2 * 8 + i] = make_float2(step, step * own_x[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      const int at = i * kThreads + thread;
      bs[at / kLanes][at % kLanes] = make_float4(b[i][0], b[i][1], b[i][2], b[i][3]);
      cs[at / kLanes][at % kLanes] = make_float4(c[i][0], c[i][1], c[i][2], c[i][3]);
    }
    __syncthreads();
    fetch(first + kScanTokens);
#pragma unroll 2
    for (int t = 0; t < kScanTokens; t += 4) {
      float part[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 step = steps[t + i][thread / kLanes];
        const float4 in = bs[t + i][lane], out = cs[t + i][lane];
        state[0] = exp2_approx(step.x * a[0]) * state[0] + step.y * in.x;
        state[1] = exp2_approx(step.x * a[1]) * state[1] + step.y * in.y;
        state[2] = exp2_approx(step.x * a[2]) * state[2] + step.y * in.z;
        state[3] = exp2_approx(step.x * a[3]) * state[3] + step.y * in.w;
        part[i] = (state[0] * out.x + state[1] * out.y) + (state[2] * out.z + state[3] * out.w);
      }
      // Four lanes get the sum of one of four tokens each.
      const bool high = lane & 2, odd = lane & 1;
      const float even_sum =
          (high ? part[2] : part[0]) + __shfl_xor_sync(kAllLanes, high ? part[0] : part[2], 2);
      const float odd_sum =
          (high ? part[3] : part[1]) + __shfl_xor_sync(kAllLanes, high ? part[1] : part[3], 2);
      float sum =
          (odd ? odd_sum : even_sum) + __shfl_xor_sync(kAllLanes, odd ? even_sum : odd_sum, 1);
#pragma unroll
      for (int k = 4; k < kLanes; k *= 2) sum += __shfl_xor_sync(kAllLanes, sum, k);
      if (lane < 4) sums[t + lane][thread / kLanes] = sum;
    }
    __syncthreads();
    if (!writes) continue;
    float out[8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
      out[i] = (sums[its_token][thread % 2 * 8 + i] + d[i] * own_x[i]) * gate[i];
    store_floats(s.out + int64_t(first + its_token) * s.channels + its_channel, out);
  }
  if (mine) store_floats(row, state);
}

// One token of kRequests requests: `a` is read once for them. kLanes divides 32.
template <class T, class S, int kRequests>
__global__ void __launch_bounds__(kItemThreads)
    step_channels(const ChannelScan<T, S> s, int lanes) {
  const int64_t item = item_of_thread();
  const int own = int(item / lanes), lane = int(item % lanes), first = int(blockIdx.y) * kRequests;
  const bool mine = own < s.channels;
  const int channel = mine ? own : 0;  // all lanes take part in the reduction
  float a[4], state[kRequests][4];
  load_floats(s.a + (int64_t(channel) * lanes + lane) * 4, a);
  const float d = s.d.of(channel), bias = s.dt_bias.of(channel);
  wait_for_inputs();
  S* rows[kRequests];
#pragma unroll
  for (int r = 0; r < kRequests; ++r) {
    const int request = min(first + r, s.requests - 1);
    rows[r] = s.state + s.slots[request] * s.slot + channel * s.row + lane * 4;
    load_floats(rows[r], state[r]);
  }
#pragma unroll
  for (int r = 0; r < kRequests; ++r) {
    const int request = min(first + r, s.requests - 1);
    const bool there = mine && first + r < s.requests;
    const float x = to_float(s.x.at[request * s.x.token + channel]);
    const float step = s.step(to_float(s.dt.at[request * s.dt.token + channel]) + bias);
    float b[4], c[4], sum = 0;
    s.b.load(request, lane * 4, b);
    s.c.load(request, lane * 4, c);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      state[r][i] = __expf(step * a[i]) * state[r][i] + step * x * b[i];
      sum += state[r][i] * c[i];
    }
    for (int k = lanes / 2; k > 0; k /= 2) sum += __shfl_xor_sync(kAllLanes, sum, k);
    if (!there) continue;
    store_floats(rows[r], state[r]);
    if (lane) continue;
    const float gate = s.z.at ? silu(to_float(s.z.at[request * s.z.token + channel])) : 1.F;
    s.out[int64_t(request) * s.channels + channel] = from_float<T>((sum + d * x) * gate);
  }
}

}  // namespace fkc
