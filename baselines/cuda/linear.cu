// SPDX-License-Identifier: Apache-2.0
// linear for up to 16 rows of x.
#include "fk/ops/linear.h"
#include "streamed.cuh"

namespace {
using namespace fkc;
using streamed::Mode;

// How K is shared depends on the number of rows.
constexpr fk_claims kVaries{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};

void need_streamed(int64_t rows, int64_t k) {
  if (const char* why = StreamedWeight::refusal(rows, rows, k)) throw fk::unsupported{why};
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
    need_streamed(max.x->shape[0], init.in_features);
  }
  void prepare(const op::forward&, const fk_memory&) { weight_.prepare(weights.weight, init.out_features, init.in_features, Mode::plain); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int rows = int(a.x->shape[0]);
    if (!rows) return;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      const auto run = [&](auto out_type) {
        using O = decltype(out_type);
        weight_.multiply<Mode::plain, false>(
            streamed::Arguments<T, O>{fk::data<T>(a.x), a.x->strides[0], fk::data<O>(weights.bias), fk::data<O>(a.out), rows, rows,
                                    int(init.out_features), int(init.in_features), nullptr, nullptr, 1}, ctx);
      };
      if (FK_DTYPE(a.out) == FK_F32) run(float{});
      else run(T{});
    });
  }

 private:
  StreamedWeight weight_;
};

FK_OP(linear, Linear);

}  // namespace
