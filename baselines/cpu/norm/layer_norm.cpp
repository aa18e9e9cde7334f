// SPDX-License-Identifier: Apache-2.0
// layer_norm: copies a row (plus the residual) to float32 in the first-level cache. Mean and
// variance then are two passes over exact values.
#include "simd.hpp"

namespace fk::cpu {
struct LayerNorm {
  const void *x, *residual, *weight, *bias;
  void* out;
  int64_t channels;
  float eps;
  int type, weight_type, bias_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(layer_norm, const LayerNorm&, int64_t begin, int64_t end, float* row)

namespace fk::cpu::FK_CPU_LEVEL {

template <class T>
// row = x (+ residual) of token t, in float32.
FK_INLINE void load_row(const LayerNorm& a, int64_t t, float* row) {
  const T* x = static_cast<const T*>(a.x) + t * a.channels;
  const T* residual = a.residual ? static_cast<const T*>(a.residual) + t * a.channels : nullptr;
  each_vector(a.channels, [&](int64_t i, auto n) {
    store(row + i, residual ? load(x + i, n) + load(residual + i, n) : load(x + i, n), n);
  });
}
// row *= weight, or row += bias.
template <bool kScale>
FK_INLINE void apply(const void* values, int type, int64_t c, float* row) {
  if (values == nullptr) return;
  with_type(type, [&]<class W>() {
    const W* w = static_cast<const W*>(values);
    each_vector(c, [&](int64_t i, auto n) {
      const Vf v = load(row + i, n), u = load(w + i, n);
      store(row + i, kScale ? v * u : v + u, n);
    });
  });
}

void layer_norm(const LayerNorm& a, int64_t begin, int64_t end, float* row) {
  const int64_t c = a.channels;
  for (int64_t t = begin; t < end; ++t) {
    with_type(a.type, [&]<class T>() { load_row<T>(a, t, row); });
    Vf total{};
    each_vector(c, [&](int64_t i, auto n) { total += load(row + i, n); });
    const float mean = sum(total) / static_cast<float>(c);
    Vf squares{};
    for (int64_t i = 0; i + kLanes <= c; i += kLanes) {
      const Vf v = load(row + i) - mean;
      squares += v * v;
    }
    float rest = 0;  // unused lanes of a partial vector would count as -mean
    for (int64_t i = c / kLanes * kLanes; i < c; ++i) rest += (row[i] - mean) * (row[i] - mean);
    const float scale = 1.f / root((sum(squares) + rest) / static_cast<float>(c) + a.eps);
    each_vector(c,
                [&](int64_t i, auto n) { store(row + i, (load(row + i, n) - mean) * scale, n); });
    apply<true>(a.weight, a.weight_type, c, row);
    apply<false>(a.bias, a.bias_type, c, row);
    with_type(a.type, [&]<class T>() {
      T* out = static_cast<T*>(a.out) + t * c;
      each_vector(c, [&](int64_t i, auto n) { store(out + i, load(row + i, n), n); });
    });
  }
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/layer_norm.h"
#include "op.hpp"

namespace fk::cpu {

struct LayerNormOp {
  using op = fk::layer_norm;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    if (weights.weight.or_null) need_float(weights.weight.or_null, "weight: f32, bf16 or f16");
    if (weights.bias.or_null) need_float(weights.bias.or_null, "bias: f32, bf16 or f16");
    need.scratch = threads_max() * padded(init.hidden_size) * 4;
  }
  LayerNormOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const LayerNorm a{args.x->data,
                      data<void>(args.residual),
                      data<void>(weights_.weight),
                      data<void>(weights_.bias),
                      args.out->data,
                      init_.hidden_size,
                      static_cast<float>(init_.eps),
                      type_of(args.x),
                      type_or_f32(weights_.weight),
                      type_or_f32(weights_.bias)};
    split(threads_, rows(args.x), args.x->nbytes * 3, [&](int64_t begin, int64_t end, int thread) {
      kernel_(a, begin, end, static_cast<float*>(ctx.scratch) + thread * padded(init_.hidden_size));
    });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::layer_norm) kernel_ = FK_CPU_PICK(layer_norm);
};
FK_OP(layer_norm, LayerNormOp);

}  // namespace fk::cpu
#endif
