// SPDX-License-Identifier: Apache-2.0
// rms_norm_gated: two passes over each group of channels. The gated values stay in float32 between
// the passes.
#include "math.hpp"

namespace fk::cpu {
struct GatedNorm {
  const void *x, *z, *weight;
  void* out;
  int64_t channels, group, x_stride, z_stride;
  float eps;
  bool norm_first, sigmoid;
  int type, weight_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(gated_norm, const GatedNorm&, int64_t begin, int64_t end, float* row)

namespace fk::cpu::FK_CPU_LEVEL {

template <class T, class W>
void gated_norm_rows(const GatedNorm& a, int64_t begin, int64_t end, float* row) {
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t g = 0; g < a.channels; g += a.group) {
      const T* x = static_cast<const T*>(a.x) + t * a.x_stride + g;
      const T* z = static_cast<const T*>(a.z) + t * a.z_stride + g;
      const W* weight = static_cast<const W*>(a.weight) + g;
      T* out = static_cast<T*>(a.out) + t * a.channels + g;
      const auto gate = [&](int64_t i, auto n) {
        const Vf v = load(z + i, n);
        return (a.sigmoid ? splat(1.f) : v) / (1.f + exp(-v));
      };
      Vf squares{};
      each_vector(a.group, [&](int64_t i, auto n) {
        Vf v = load(x + i, n);
        if (!a.norm_first) v *= gate(i, n);
        store(row + i, v, n);
        squares += v * v;
      });
      const float scale = 1.f / root(sum(squares) / static_cast<float>(a.group) + a.eps);
      each_vector(a.group, [&](int64_t i, auto n) {
        Vf v = load(row + i, n) * scale * load(weight + i, n);
        if (a.norm_first) v *= gate(i, n);
        store(out + i, v, n);
      });
    }
  }
}

void gated_norm(const GatedNorm& a, int64_t begin, int64_t end, float* row) {
  with_type(a.type, [&]<class T>() {
    with_type(a.weight_type, [&]<class W>() { gated_norm_rows<T, W>(a, begin, end, row); });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#define FK_RMS_NORM_GATED_EDITION 2
#include "fk/ops/rms_norm_gated.h"
#include "op.hpp"

namespace fk::cpu {

struct RmsNormGatedOp {
  using op = fk::rms_norm_gated;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.z, "z: of x's type");
    need_same(max.x, max.out, "out: of x's type");
    need_float(weights.weight, "weight: f32, bf16 or f16");
    if (init.hidden_size % init.group_size)
      throw unsupported{"group_size does not divide hidden_size"};
    need.scratch = threads_max() * padded(init.group_size) * 4;
  }
  RmsNormGatedOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const GatedNorm a{args.x->data,
                      args.z->data,
                      weights_.weight->data,
                      args.out->data,
                      init_.hidden_size,
                      init_.group_size,
                      args.x->strides[0],
                      args.z->strides[0],
                      static_cast<float>(init_.eps),
                      init_.norm_before_gate != 0,
                      init_.activation == FK_RMS_NORM_GATED_ACTIVATION_SIGMOID,
                      type_of(args.x),
                      type_of(weights_.weight)};
    split(threads_, args.x->shape[0], 4 * args.out->nbytes,
          [&](int64_t begin, int64_t end, int thread) {
            kernel_(a, begin, end,
                    static_cast<float*>(ctx.scratch) + thread * padded(init_.group_size));
          });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::gated_norm) kernel_ = FK_CPU_PICK(gated_norm);
};
FK_OP(rms_norm_gated, RmsNormGatedOp);

}  // namespace fk::cpu
#endif
