// SPDX-License-Identifier: Apache-2.0
// ssd_chunk_scan and selective_state_update: a warp has four rows of a head's state. A lane keeps
// four neighbouring elements of each in registers, from the first token to the last. Inputs are
// read one token ahead.
#include "../parts/op.cuh"
#include "chunked_scan.cuh"
#include "fk/ops/selective_state_update.h"
#include "fk/ops/ssd_chunk_scan.h"

namespace {
using namespace fkc;
constexpr int kThreads = 128, kRows = 4, kRowsOfBlock = kThreads / 32 * kRows, kPerMax = 2;  // kPerMax: times 128 elements of a row
constexpr int kProcessors = 132, kChunk = 32, kChunkWarps = 2, kChunkGroups = 2;

// The sums of four values over a warp. A lane gets the sum which has the number in bits 3 and 4 of
// the lane.
__device__ float sums_of_four(const float (&v)[kRows]) {
  const int lane = int(threadIdx.x) % 32;
  const bool high = lane & 16, odd = lane & 8;
  const float first = (high ? v[2] : v[0]) + __shfl_xor_sync(0xffffffffu, high ? v[0] : v[2], 16);
  const float second = (high ? v[3] : v[1]) + __shfl_xor_sync(0xffffffffu, high ? v[1] : v[3], 16);
  return warp_sum<8>((odd ? second : first) + __shfl_xor_sync(kAllLanes, odd ? first : second, 8));
}

template <class T, class S, int kPer> __global__ void __launch_bounds__(kThreads) scan(Scan<T, S> s) {
  wait_for_inputs();
  const int request = int(blockIdx.x) / s.heads, head = int(blockIdx.x) % s.heads, lane = int(threadIdx.x) % 32;
  const int row = int(blockIdx.y) * kRowsOfBlock + int(threadIdx.x) / 32 * kRows, group = head / s.group;
  const int begin = s.starts ? s.starts[request] : request, end = s.starts ? s.starts[request + 1] : request + 1;
  if (row >= s.width || begin == end) return;
  S* const rows = s.state + s.slots[request] * s.slot + head * s.state_head;
  const bool fresh = s.has_state && !s.has_state[request];
  const auto mine = [&](int p) { return p * 128 + lane * 4; };  // the first element of this lane
  float state[kRows][kPer][4];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int p = 0; p < kPer; ++p) {
      state[r][p][0] = state[r][p][1] = state[r][p][2] = state[r][p][3] = 0;
      if (!fresh && row + r < s.width && mine(p) < s.elements) load_floats(rows + (row + r) * s.state_row + mine(p), state[r][p]);
    }
  const float a = s.a[head], d = s.d.of(head), bias = s.dt_bias.of(head);
  float b[kPer][4], c[kPer][4], x[kRows], dt = 0;
  const auto fetch = [&](int t) {
#pragma unroll
    for (int p = 0; p < kPer; ++p) {
      b[p][0] = b[p][1] = b[p][2] = b[p][3] = c[p][0] = c[p][1] = c[p][2] = c[p][3] = 0;
      if (mine(p) >= s.elements) continue;
      load_floats(s.b + t * s.b_token + group * s.b_group + mine(p), b[p]);
      load_floats(s.c + t * s.c_token + group * s.c_group + mine(p), c[p]);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = row + r < s.width ? to_float(s.x[t * s.x_token + head * s.x_head + row + r]) : 0.F;
    dt = to_float(s.dt[t * s.dt_token + head * s.dt_head]) + bias;
  };
  fetch(begin);
  for (int t = begin; t < end; ++t) {
    const float step = s.step(dt);
    const float decay = __expf(step * a);
    float sums[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sums[r] = 0;
      const float in = step * x[r];
#pragma unroll
      for (int p = 0; p < kPer; ++p)
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          state[r][p][k] = decay * state[r][p][k] + in * b[p][k];
          sums[r] += state[r][p][k] * c[p][k];
        }
    }
    const int r = lane / 8;
    const float own = r == 0 ? x[0] : r == 1 ? x[1] : r == 2 ? x[2] : x[3];
    if (t + 1 < end) fetch(t + 1);
    const float sum = sums_of_four(sums) + d * own;
    if (lane % 8 == 0 && row + r < s.width) s.out[(int64_t(t) * s.heads + head) * s.width + row + r] = from_float<T>(sum);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int p = 0; p < kPer; ++p)
      if (row + r < s.width && mine(p) < s.elements) store_floats(rows + (row + r) * s.state_row + mine(p), state[r][p]);
}

template <class Init, class Forward> void need_scan(const Init& init, const Forward& max) {
  const fk_in* const state = fk_as_in(max.ssm_state);
  need_16bit(max.x);
  need(init.num_heads % init.num_groups == 0, "num_heads is not a multiple of num_groups");
  need(init.state_size % 4 == 0 && init.state_size <= kPerMax * 128, "state_size: a multiple of 4 up to 256");
  need(FK_DTYPE(state) == FK_F32 || FK_DTYPE(state) == FK_DTYPE(max.x), "ssm_state: the dtype of x or float32 only");
  const fk_in* const vectors[] = {max.b, max.c, state};
  for (const fk_in* view : vectors)
    for (int32_t i = 0; i + 1 < view->ndim; ++i) need(view->strides[i] % 4 == 0, "strides of b, c and ssm_state: multiples of 4 only");
  need(init.head_dim <= int64_t{65535} * kRowsOfBlock, "head_dim: fewer");
  need(max.state_slots->shape[0] * init.num_heads < int64_t{1} << 31, "requests: fewer for so many heads");
}
// The kernel by chunks on tensor cores, for certain widths of the state; else `run` is null.
template <class T, class S> struct ByChunks {
  void (*run)(Scan<T, S>) = nullptr;
  int slice = 0, threads = 0, shared = 0, at_once = 0;  // at_once: blocks of a multiprocessor
};
template <class T, class S, class Init, class Forward> ByChunks<T, S> by_chunks(const Init& init, const Forward& a) {
  const fk_in* const rows[] = {a.x, a.b, a.c};
  for (const fk_in* view : rows)
    if (view->strides[0] % 8 || view->strides[1] % 8 || view->strides[0] >= int64_t{1} << 30 || reinterpret_cast<uintptr_t>(view->data) % 16) return {};
  if (reinterpret_cast<uintptr_t>(a.ssm_state->data) % 8) return {};
  const auto of = [](auto elements) {
    constexpr int kDS = decltype(elements)::value;
    using K = Chunked<T, kDS, kChunk, kChunkWarps, kChunkGroups>;
    return ByChunks<T, S>{chunked_scan_mma<T, S, kDS, kChunk, kChunkWarps, kChunkGroups>, K::kSlice, K::kThreads, K::kBytes, K::kAtOnce};
  };
  if (init.head_dim % (16 * kChunkWarps) || init.num_heads * init.head_dim >= int64_t{1} << 31) return {};
  if (init.state_size == 64) return of(std::integral_constant<int, 64>{});
  if (init.state_size == 128) return of(std::integral_constant<int, 128>{});
  return {};
}
template <class Init, class Weights, class Forward>
void run(const Init& init, const Weights& w, const Forward& a, const int32_t* starts, const int32_t* has_state, const fk_ctx& ctx) {
  const int64_t requests = a.state_slots->shape[0];
  if (!requests) return;
  const dim3 grid(unsigned(requests * init.num_heads), unsigned(cdiv(init.head_dim, kRowsOfBlock)));
  dispatch(a.x, [&](auto type) {
    using T = decltype(type);
    const auto go = [&](auto* state) {
      using S = std::remove_pointer_t<decltype(state)>;
      const fk_in* const its = fk_as_in(a.ssm_state);
      const Scan<T, S> s{fk::data<T>(a.x), fk::data<T>(a.dt), fk::data<T>(a.b), fk::data<T>(a.c), state, fk::data<T>(a.out), fk::data<float>(w.a),
                         scalars(w.d), scalars(w.dt_bias), starts, fk::data<int32_t>(a.state_slots), has_state, a.x->strides[0], a.x->strides[1],
                         a.dt->strides[0], a.dt->strides[1], a.b->strides[0], a.b->strides[1], a.c->strides[0], a.c->strides[1], its->strides[0],
                         its->strides[1], its->strides[2], int(init.num_heads), int(init.head_dim), int(init.num_heads / init.num_groups),
                         int(init.state_size), int(init.dt_softplus), float(init.dt_min), float(init.dt_max)};
      if constexpr (std::is_same_v<Forward, typename fk::ssd_chunk_scan::forward>) {
        if (const auto kernel = by_chunks<T, S>(init, a); kernel.run) {
          cudaFuncSetAttribute(kernel.run, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared);
          // If the multiprocessors have room, and chunks are enough, blocks of a cluster take
          // chunks in turn. The sums are the same.
          const int64_t blocks = grid.x * (init.head_dim / kernel.slice);
          unsigned ranks = 1;
          while (ranks < 8 && blocks * ranks * 2 <= kProcessors * kernel.at_once && int64_t(ranks) * 2 * kChunkGroups * kChunk < a.max_query_len) ranks *= 2;
          launch_clusters(kernel.run, dim3(1, 1, ranks), dim3(grid.x, unsigned(init.head_dim / kernel.slice), ranks), kernel.threads, size_t(kernel.shared), ctx, s);
          return;
        }
      }
      launch(init.state_size <= 128 ? scan<T, S, 1> : scan<T, S, kPerMax>, grid, kThreads, 0, ctx, s);
    };
    if (FK_DTYPE(a.ssm_state) == FK_F32) go(fk::data<float>(a.ssm_state));
    else go(fk::data<T>(a.ssm_state));
  });
}

struct SsdChunkScan : Base<fk::ssd_chunk_scan> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) { need_scan(init, max); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    run(init, weights, a, fk::data<int32_t>(a.cu_seqlens), fk::data<int32_t>(a.has_initial_state), ctx);
  }
};
struct SelectiveStateUpdate : Base<fk::selective_state_update> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) { need_scan(init, max); }
  void forward(const op::forward& a, const fk_ctx& ctx) { run(init, weights, a, nullptr, nullptr, ctx); }
};
FK_OP(ssd_chunk_scan, SsdChunkScan);
FK_OP(selective_state_update, SelectiveStateUpdate);

}  // namespace
