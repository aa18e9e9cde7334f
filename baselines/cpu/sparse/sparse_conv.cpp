// SPDX-License-Identifier: Apache-2.0
// sparse_conv: a part of the output channels of several outputs, so that weights of an offset are
// read once for them.
#include "simd.hpp"

namespace fk::cpu {
struct SparseConv {
  const void *x, *weight, *bias_or_null;
  void* out;
  const int32_t* table;
  int64_t count, taps, channels, outputs;
  int type, weight_type, bias_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(sparse_conv_rows, const SparseConv&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

template <class X, class W>
FK_INLINE float sparse_dot(const X* x, const W* w, int64_t count) {
  Vf sums = {};
  each_vector(count, [&](int64_t i, auto n) { sums += load(x + i, n) * load(w + i, n); });
  return sum(sums);
}

// Outputs [begin, end).
void sparse_conv_rows(const SparseConv& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class X>() {
    with_type(a.weight_type, [&]<class W>() {
      with_type(a.bias_type, [&]<class B>() {
        for (int64_t t = begin; t < end; ++t) {
          for (int64_t o = 0; o < a.outputs; ++o) {
            float all = a.bias_or_null ? to_float(static_cast<const B*>(a.bias_or_null)[o]) : 0;
            for (int64_t k = 0; k < a.taps; ++k) {
              const int64_t from = a.table[k * a.count + t];
              if (from < 0) continue;
              all += sparse_dot(static_cast<const X*>(a.x) + from * a.channels,
                                static_cast<const W*>(a.weight) + (o * a.taps + k) * a.channels,
                                a.channels);
            }
            store_n(static_cast<X*>(a.out) + t * a.outputs + o, splat(all), 1);
          }
        }
      });
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/sparse_conv.h"
#include "op.hpp"

namespace fk::cpu {

struct SparseConvOp {
  using op = fk::sparse_conv;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_float(weights.weight, "weight: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
  }
  SparseConvOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const fk_in* bias = weights_.bias.or_null;
    const SparseConv a{.x = args.x->data,
                       .weight = weights_.weight->data,
                       .bias_or_null = bias ? bias->data : nullptr,
                       .out = args.out->data,
                       .table = data<int32_t>(args.table),
                       .count = args.out->shape[0],
                       .taps = init_.kernel_volume,
                       .channels = init_.in_channels,
                       .outputs = init_.out_channels,
                       .type = type_of(args.x),
                       .weight_type = type_of(weights_.weight),
                       .bias_type = type_or_f32(weights_.bias)};
    split(threads_, a.count, a.count * a.taps * a.channels * a.outputs / 4,
          [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::sparse_conv_rows) kernel_ = FK_CPU_PICK(sparse_conv_rows);
};
FK_OP(sparse_conv, SparseConvOp);

}  // namespace fk::cpu
#endif
