// SPDX-License-Identifier: Apache-2.0
// add_rms_norm_quantize: a thread makes its rows of the norm in float32, and then their codes.
#include "simd.hpp"

namespace fk::cpu {
// residual is null if it is absent.
struct NormRows {
  const void *x, *weight;
  void* residual;
  float* out;
  int64_t channels;
  float eps;
  int type, weight_type, residual_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(norm_rows, const NormRows&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

template <class T, class W, class R>
void norm_rows_as(const NormRows& a, int64_t begin, int64_t end) {
  const int64_t c = a.channels;
  const W* weight = static_cast<const W*>(a.weight);
  for (int64_t t = begin; t < end; ++t) {
    const T* x = static_cast<const T*>(a.x) + t * c;
    R* residual = a.residual ? static_cast<R*>(a.residual) + t * c : nullptr;
    float* out = a.out + t * c;
    Vf squares{};
    each_vector(c, [&](int64_t i, auto n) {
      Vf v = load(x + i, n);
      if (residual) {
        v += load(residual + i, n);
        store(residual + i, v, n);
      }
      store(out + i, v, n);
      squares += v * v;
    });
    const float scale = 1.f / root(sum(squares) / static_cast<float>(c) + a.eps);
    each_vector(c, [&](int64_t i, auto n) {
      store(out + i, load(out + i, n) * scale * load(weight + i, n), n);
    });
  }
}

void norm_rows(const NormRows& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    with_type(a.weight_type, [&]<class W>() {
      if (a.residual_type == a.type)
        norm_rows_as<T, W, T>(a, begin, end);
      else
        norm_rows_as<T, W, float>(a, begin, end);
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/add_rms_norm_quantize.h"
#include "quantize.hpp"

namespace fk::cpu {

struct AddRmsNormQuantizeOp {
  using op = fk::add_rms_norm_quantize;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_float(weights.weight, "weight: f32, bf16 or f16");
    if (max.residual.or_null && FK_DTYPE(max.residual.or_null) != FK_F32)
      need_same(max.x, max.residual.or_null, "residual: float32 or of x's type");
    if (FK_DTYPE(max.out) != FK_F8E4M3) throw unsupported{"out: f8e4m3"};
    const int64_t rows = max.x->shape[0];
    need.scratch =
        padded(fk_numel(max.x)) * 4 + Quantizer::scratch_bytes(rows, max.scale_out->shape[1]);
  }
  AddRmsNormQuantizeOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights) {
    quantizer_.threads = threads_of(host);
    quantizer_.eps = kLeast;
    quantizer_.power_of_two = static_cast<int>(init.power_of_two);
  }
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t count = args.x->shape[0], channels = init_.hidden_size;
    auto* normed = static_cast<float*>(ctx.scratch);
    const int type = type_of(args.x);
    const NormRows norm{args.x->data,
                        weights_.weight->data,
                        data<void>(args.residual),
                        normed,
                        channels,
                        static_cast<float>(init_.eps),
                        type,
                        type_of(weights_.weight),
                        args.residual.or_null ? type_of(args.residual.or_null) : type};
    QuantizeRows a{};
    a.x = normed, a.step = a.columns = channels, a.type = kF32;
    a.across = args.scale_out->shape[1];
    a.group_rows = init_.group_rows, a.group_columns = init_.group_columns;
    a.out = static_cast<uint8_t*>(args.out->data);
    quantizer_.run(a, count, args.scale, data<float>(args.scale_out),
                   normed + padded(fk_numel(args.x)),
                   [&](int64_t begin, int64_t end) { kernel_(norm, begin, end); });
  }

 private:
  static constexpr float kLeast = 1e-10F;  // as in quantize_fp8

  const op::init& init_;
  const op::weights& weights_;
  Quantizer quantizer_;
  decltype(&generic::norm_rows) kernel_ = FK_CPU_PICK(norm_rows);
};
FK_OP(add_rms_norm_quantize, AddRmsNormQuantizeOp);

}  // namespace fk::cpu
#endif
