// SPDX-License-Identifier: Apache-2.0
// selective_scan and selective_scan_update.
#include "selective_scan.cuh"

#include "fk/ops/selective_scan.h"
#include "fk/ops/selective_scan_update.h"

namespace {
using namespace fkc;

template <class Init, class Forward>
void need_channels(const Init& init, const Forward& max) {
  const fk_in* const state = fk_as_in(max.ssm_state);
  need_16bit(max.x);
  need(init.channels % 8 == 0, "channels: a multiple of 8 only");
  need(FK_DTYPE(state) == FK_F32 || FK_DTYPE(state) == FK_DTYPE(max.x),
       "ssm_state: the dtype of x or float32 only");
  need(in_fours(state), "ssm_state: rows must start at multiples of four elements");
  need(max.state_slots->shape[0] * cdiv(init.channels, kScanChannels) < int64_t{1} << 31,
       "requests: fewer for so many channels");
}
template <class Weights>
void need_scalars(const Weights& weights) {
  const fk_in* const both[] = {weights.d.or_null, weights.dt_bias.or_null};
  for (const fk_in* view : both)
    need(!view || FK_DTYPE(view) != FK_F64, "d and dt_bias: float32, float16 and bfloat16 only");
}
// go(scan) gets all arguments but `starts` and `has_state`.
template <class Init, class Weights, class Forward, class Go>
void with_arguments(const Init& init, const Weights& w, const Forward& a, Go go) {
  if (!a.state_slots->shape[0]) return;
  dispatch(a.x, [&](auto type) {
    using T = decltype(type);
    const auto of_state = [&](auto* state) {
      ChannelScan<T, std::remove_pointer_t<decltype(state)>> s{};
      s.x = token_rows<T>(a.x), s.dt = token_rows<T>(a.dt), s.b = token_rows<T>(a.b);
      s.c = token_rows<T>(a.c), s.z = token_rows<T>(a.z.or_null);
      s.state = state, s.out = fk::data<T>(a.out), s.a = fk::data<float>(w.a);
      s.d = scalars(w.d), s.dt_bias = scalars(w.dt_bias);
      s.slots = fk::data<int32_t>(a.state_slots);
      s.slot = a.ssm_state->strides[0], s.row = a.ssm_state->strides[1];
      s.requests = int(a.state_slots->shape[0]), s.channels = int(init.channels);
      s.softplus = int(init.dt_softplus);
      go(s);
    };
    if (FK_DTYPE(a.ssm_state) == FK_F32)
      of_state(fk::data<float>(a.ssm_state));
    else
      of_state(fk::data<T>(a.ssm_state));
  });
}

struct SelectiveScan : Base<fk::selective_scan> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_channels(init, max);
    need_scalars(weights);
    need(init.state_size == 16 || init.state_size == 32 || init.state_size == 64,
         "state_size: 16, 32 or 64 only");
  }
  template <class T, class S>
  static auto kernel_of(const ChannelScan<T, S>&, int64_t states) {
    return states == 16   ? scan_channels<T, S, 4>
           : states == 32 ? scan_channels<T, S, 8>
                          : scan_channels<T, S, 16>;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    with_arguments(init, weights, a, [&](auto s) {
      s.starts = fk::data<int32_t>(a.cu_seqlens);
      s.has_state = fk::data<int32_t>(a.has_initial_state);
      const unsigned blocks = unsigned(cdiv(s.channels, kScanChannels) * s.requests);
      launch(kernel_of(s, init.state_size), blocks, unsigned(kScanChannels * init.state_size / 4),
             0, ctx, s);
    });
  }
};
struct SelectiveScanUpdate : Base<fk::selective_scan_update> {
  using Base::Base;
  static constexpr int64_t kMany = 64, kOfMany = 4;  // requests; of a thread
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_channels(init, max);
    need_scalars(weights);
    need(init.state_size >= 4 && init.state_size <= 128 &&
             (init.state_size & (init.state_size - 1)) == 0,
         "state_size: a power of two from 4 to 128");
    need(max.state_slots->shape[0] < 65536, "requests: fewer than 65536");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    with_arguments(init, weights, a, [&](const auto& s) { go(s, ctx); });
  }
  template <class T, class S>
  void go(const ChannelScan<T, S>& s, const fk_ctx& ctx) const {
    const bool many = s.requests >= kMany;
    const int lanes = int(init.state_size / 4);
    const dim3 grid(blocks_of(init.channels * lanes),
                    unsigned(many ? cdiv(s.requests, kOfMany) : s.requests));
    launch(many ? step_channels<T, S, kOfMany> : step_channels<T, S, 1>, grid, kItemThreads, 0, ctx,
           s, lanes);
  }
};
FK_OP(selective_scan, SelectiveScan);
FK_OP(selective_scan_update, SelectiveScanUpdate);

}  // namespace
