// SPDX-License-Identifier: Apache-2.0
// ssd_chunk_scan, selective_scan and the one-token forms of both: one warp per row of a head's
// state, token by token. The state stays double, and is rounded once, after a request's tokens. A
// channel of selective_scan is a head of one row. Each element of its state has a decay.
#include "common.cuh"
#include "fk/ops/selective_scan.h"
#include "fk/ops/selective_scan_update.h"
#include "fk/ops/selective_state_update.h"
#include "fk/ops/ssd_chunk_scan.h"

namespace {
using namespace fkr;
constexpr int kWarp = 32;

// Sizes, inputs and weights of one of the ops. `starts` and has_state are null where each request has one token and a state.
struct Scan {
  Ref x, dt, b, c, z, state, out, d, dt_bias;
  const float* a;
  const int32_t *starts, *slots, *has_state;
  int64_t heads, width, group, state_size;  // group: heads with the same b and c
  bool softplus, channels;  // channels: views have no axis of heads' rows, and none of groups
  double dt_min, dt_max;

  __device__ double step(int64_t t, int64_t h) const {
    double v = load(dt, dt.at(t, h)) + load_or(dt_bias, h, 0);
    if (softplus && v < 40) v = log1p(exp(v));
    if (v < dt_min) v = dt_min;
    return dt_max > 0 && v > dt_max ? dt_max : v;
  }
  // Row `i` of head h of request r, by a warp. `row` has room for it.
  __device__ void run(int64_t r, int64_t h, int64_t i, double* row) const {
    const int64_t first = starts ? starts[r] : r, last = starts ? starts[r + 1] : r + 1;
    if (first == last) return;
    const int64_t at = state.at(slots[r], h, channels ? 0 : i), shared = channels ? 0 : h / group;
    const bool fresh = has_state && !has_state[r];
    for (int64_t y = threadIdx.x; y < state_size; y += kWarp) row[y] = fresh ? 0 : load(state, at + y);
    for (int64_t t = first; t < last; ++t) {
      const double size = step(t, h), in = load(x, x.at(t, h) + i);
      double sum = 0;
      for (int64_t y = threadIdx.x; y < state_size; y += kWarp) {
        row[y] = exp(size * (channels ? a[h * state_size + y] : a[h])) * row[y] + size * in * load(b, b.at(t, shared) + y);
        sum += row[y] * load(c, c.at(t, shared) + y);
      }
      sum = block_sum(sum);
      const double gate = z.data ? silu(load(z, z.at(t, h))) : 1;
      if (threadIdx.x == 0) store(out, out.at(t, h) + i, (sum + load_or(d, h, 0) * in) * gate);
    }
    for (int64_t y = threadIdx.x; y < state_size; y += kWarp) store(state, at + y, row[y]);
  }
};
template <class Init>
void need(const Init& init) {
  if (init.num_heads % init.num_groups) throw fk::unsupported{"num_heads is not a multiple of num_groups"};
  if (init.state_size * 8 > kSharedLimit) throw fk::unsupported{"a larger state_size than shared memory holds"};
}
void run(const Scan& all, int64_t requests, const fk_ctx& ctx) {
  for_rows(requests * all.heads * all.width, kWarp, size_t(all.state_size) * 8, ctx, [=] __device__(int64_t i) {
    all.run(i / all.width / all.heads, i / all.width % all.heads, i % all.width, dynamic_shared());
  });
}
template <class Init, class Weights, class Forward>
void scan(const Init& init, const Weights& w, const Forward& a, const int32_t* starts, const int32_t* has_state, const fk_ctx& ctx) {
  const Scan all{ref(a.x), ref(a.dt), ref(a.b), ref(a.c), Ref{}, ref(a.ssm_state), ref(a.out), ref(w.d), ref(w.dt_bias),
                 fk::data<float>(w.a), starts, fk::data<int32_t>(a.state_slots), has_state,
                 init.num_heads, init.head_dim, init.num_heads / init.num_groups, init.state_size,
                 init.dt_softplus != 0, false, init.dt_min, init.dt_max};
  run(all, a.state_slots->shape[0], ctx);
}
template <class Init>
void need_channels(const Init& init) {
  if (init.state_size * 8 > kSharedLimit) throw fk::unsupported{"a larger state_size than shared memory holds"};
}
template <class Init, class Weights, class Forward>
void scan_channels(const Init& init, const Weights& w, const Forward& a, const int32_t* starts, const int32_t* has_state, const fk_ctx& ctx) {
  const Scan all{ref(a.x), ref(a.dt), ref(a.b), ref(a.c), ref(a.z), ref(a.ssm_state), ref(a.out), ref(w.d), ref(w.dt_bias),
                 fk::data<float>(w.a), starts, fk::data<int32_t>(a.state_slots), has_state,
                 init.channels, 1, init.channels, init.state_size, init.dt_softplus != 0, true, 0, 0};
  run(all, a.state_slots->shape[0], ctx);
}

struct SsdChunkScan : Plain<fk::ssd_chunk_scan> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) { need(init); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    scan(init, weights, a, fk::data<int32_t>(a.cu_seqlens), fk::data<int32_t>(a.has_initial_state), ctx);
  }
};
struct SelectiveStateUpdate : Plain<fk::selective_state_update> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) { need(init); }
  void forward(const op::forward& a, const fk_ctx& ctx) { scan(init, weights, a, nullptr, nullptr, ctx); }
};
struct SelectiveScan : Plain<fk::selective_scan> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) { need_channels(init); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    scan_channels(init, weights, a, fk::data<int32_t>(a.cu_seqlens), fk::data<int32_t>(a.has_initial_state), ctx);
  }
};
struct SelectiveScanUpdate : Plain<fk::selective_scan_update> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) { need_channels(init); }
  void forward(const op::forward& a, const fk_ctx& ctx) { scan_channels(init, weights, a, nullptr, nullptr, ctx); }
};
FK_OP(ssd_chunk_scan, SsdChunkScan);
FK_OP(selective_state_update, SelectiveStateUpdate);
FK_OP(selective_scan, SelectiveScan);
FK_OP(selective_scan_update, SelectiveScanUpdate);

}  // namespace
