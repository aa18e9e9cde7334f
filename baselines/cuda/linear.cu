// SPDX-License-Identifier: Apache-2.0
// linear for up to 64 rows of x: few streamed past x in shared memory, more with swapped operands.
#include "fk/ops/linear.h"
#include "streamed.cuh"
#include "swapped.cuh"

namespace {
using namespace fkc;
using streamed::Mode;

// How K is shared depends on the number of rows.
constexpr fk_claims kVaries{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};

const char* no_swap(const fk::linear::init& init, int64_t rows) { return SwappedWeight::refusal(rows, init.out_features, init.in_features); }
// Which of both, as measured: few rows are streamed; more of wide matrices, and fewer where K has to be split.
bool streams(const fk::linear::init& init, int64_t rows) {
  const int few = init.out_features > 16384 ? 8 : init.in_features > 8192 ? 2 : 4;
  return !StreamedWeight::refusal(rows, rows, init.in_features) && (rows <= few || no_swap(init, rows));
}

struct Linear : Base<fk::linear> {
  using Base::Base;
  static constexpr fk_claims claims = kVaries;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(FK_DTYPE(weights.weight) == FK_DTYPE(max.x), "weight: the dtype of x only");
    need(FK_DTYPE(max.out) == FK_DTYPE(max.x) || FK_DTYPE(max.out) == FK_F32, "out: the dtype of x, or float32");
    need(!weights.bias.or_null || FK_DTYPE(weights.bias.or_null) == FK_DTYPE(max.out), "bias: the dtype of out only");
    need_aligned(max.x);
    const int64_t rows = max.x->shape[0];
    if (const char* why = no_swap(init, rows); why && !streams(init, rows)) throw fk::unsupported{why};
  }
  void prepare(const op::forward& max, const fk_memory&) {
    if (streams(init, 1)) few_.prepare(weights.weight, init.out_features, init.in_features, Mode::plain);
    if (!streams(init, max.x->shape[0])) some_.prepare(weights.weight, init.out_features, init.in_features);
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
        if (streams(init, rows)) few_.multiply<Mode::plain, false>(streamed::Arguments<T, O>{x, a.x->strides[0], bias, out, rows, rows, n, k, nullptr, nullptr, 1}, ctx);
        else some_.multiply(x, a.x->strides[0], swapped::Arguments<O>{bias, out, rows, n, k}, ctx);
      };
      if (FK_DTYPE(a.out) == FK_F32) run(float{});
      else run(T{});
    });
  }

 private:
  StreamedWeight few_;
  SwappedWeight some_;
};

FK_OP(linear, Linear);

}  // namespace
