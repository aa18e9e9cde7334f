// SPDX-License-Identifier: Apache-2.0
// linear for up to 256 rows of x. One row takes a streamed GEMV, some rows a swap-AB split-K GEMM,
// and more rows a two-CTA multicast GEMM. A narrow GEMV has
// matrices of few columns which the others refuse.
#include "../parts/op.cuh"
#include "fk/ops/linear.h"
#include "multicast.cuh"
#include "narrow_gemv.cuh"
#include "streamed_gemv.cuh"
#include "swap_ab.cuh"

namespace {
using namespace fkc;
using gemv::Mode;

// The kernel, as measured: streamed for one row, and for more rows if the others refuse.
enum class Way { streamed_gemv, narrow_gemv, swap_ab, multicast };
struct Choice {
  Way way;
  const char* refusal;  // of the last kernel; null if a kernel takes the call
};
Choice choose(const fk::linear::init& init, int64_t rows) {
  const int64_t n = init.out_features, k = init.in_features;
  const char* const no_stream = StreamedWeight::refusal(rows, rows, k);
  if (!no_stream && rows == 1) return {Way::streamed_gemv, nullptr};
  if (!SwapAbWeight::refusal(rows, n, k)) return {Way::swap_ab, nullptr};
  if (!no_stream) return {Way::streamed_gemv, nullptr};
  if (!narrow::refusal(rows, k)) return {Way::narrow_gemv, nullptr};
  return {Way::multicast, MulticastWeight::refusal(rows, n, k)};
}

struct Linear : Base<fk::linear> {
  using Base::Base;
  static constexpr fk_claims claims = claims_of(FK_GRAPH_ALWAYS, 0);
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_16bit(max.x);
    need(FK_DTYPE(weights.weight) == FK_DTYPE(max.x), "weight: the dtype of x only");
    need(FK_DTYPE(max.out) == FK_DTYPE(max.x) || FK_DTYPE(max.out) == FK_F32,
         "out: the dtype of x, or float32");
    need(!weights.bias.or_null || FK_DTYPE(weights.bias.or_null) == FK_DTYPE(max.out),
         "bias: the dtype of out only");
    need_aligned(max.x);
    need(init.out_features < (1 << 30) && init.in_features < (1 << 30),
         "features: fewer than 2^30");
    if (const char* why = choose(init, max.x->shape[0]).refusal) throw fk::unsupported{why};
  }
  void prepare(const op::forward& max, const fk_memory&) {
    const int64_t n = init.out_features, k = init.in_features;
    if (k % 64 == 0) few_.prepare(weights.weight, n, k, Mode::plain);
    if (k % 64 == 0 && max.x->shape[0] > 1) some_.prepare(weights.weight, n, k);
    if (choose(init, max.x->shape[0]).way == Way::multicast) many_.prepare(weights.weight, n, k);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int rows = int(a.x->shape[0]), n = int(init.out_features), k = int(init.in_features);
    if (!rows) return;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      const auto run = [&](auto out_type) {
        using O = decltype(out_type);
        const T* x = fk::data<T>(a.x);
        const O* bias = fk::data<O>(weights.bias);
        O* out = fk::data<O>(a.out);
        switch (choose(init, rows).way) {
          case Way::streamed_gemv:
            return few_.multiply<Mode::plain, false>(
                gemv::Arguments<T, O>{x, a.x->strides[0], bias, out, rows, rows, n, k, nullptr,
                                      nullptr, 1},
                ctx);
          case Way::narrow_gemv:
            return narrow::multiply(
                narrow::Arguments<T, O>{x, a.x->strides[0], fk::data<T>(weights.weight), bias, out,
                                        rows, n, k},
                ctx);
          case Way::swap_ab:
            return some_.multiply(x, a.x->strides[0], swap_ab::Arguments<O>{bias, out, rows, n, k},
                                  ctx);
          case Way::multicast:
            return many_.multiply(x, a.x->strides[0],
                                  multicast::Arguments{bias, out, rows, n, k, sizeof(O) == 4}, ctx);
        }
      };
      if (FK_DTYPE(a.out) == FK_F32)
        run(float{});
      else
        run(T{});
    });
  }

 private:
  StreamedWeight few_;
  SwapAbWeight some_;
  MulticastWeight many_;
};

FK_OP(linear, Linear);

}  // namespace
