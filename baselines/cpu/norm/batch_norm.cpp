// SPDX-License-Identifier: Apache-2.0
// batch_norm: folds the statistics into a scale and a shift of each channel when it is prepared. A
// call is one pass over the rows; memory bounds its time.
#include "math.hpp"

namespace fk::cpu {
// In the order of FK_BATCH_NORM_ACTIVATION_...
enum class Behind : int { none, relu, silu, gelu };
struct BatchNorm {
  const void* x;
  void* out;
  const float *mean, *scale, *bias;
  int64_t channels;
  int type;
  Behind activation;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(batch_norm_rows, const BatchNorm&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

void batch_norm_rows(const BatchNorm& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    const auto each = [&](auto f) {
      for (int64_t t = begin; t < end; ++t) {
        const T* x = static_cast<const T*>(a.x) + t * a.channels;
        T* out = static_cast<T*>(a.out) + t * a.channels;
        each_vector(a.channels, [&](int64_t i, auto n) {
          const Vf v = (load(x + i, n) - load(a.mean + i, n)) * load(a.scale + i, n);
          store(out + i, f(v + load(a.bias + i, n)), n);
        });
      }
    };
    switch (a.activation) {
      case Behind::none:
        return each([](Vf v) { return v; });
      case Behind::relu:
        return each([](Vf v) { return relu(v); });
      case Behind::silu:
        return each([](Vf v) { return v * sigmoid(v); });
      case Behind::gelu:
        return each([](Vf v) { return gelu(v); });
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/batch_norm.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

static_assert(int(Behind::relu) == FK_BATCH_NORM_ACTIVATION_RELU);
static_assert(int(Behind::gelu) == FK_BATCH_NORM_ACTIVATION_GELU);

struct BatchNormOp {
  using op = fk::batch_norm;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
    for (const fk_in* weight :
         {weights.weight.or_null, weights.bias.or_null, weights.mean, weights.variance})
      if (weight) need_float(weight, "weights: f32, bf16 or f16");
    need.packed = 3 * padded(init.size) * 4;
  }
  BatchNormOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory& memory) {
    mean_ = static_cast<float*>(memory.packed);
    scale_ = mean_ + padded(init_.size);
    bias_ = scale_ + padded(init_.size);
    if (memory.packed_ready) return;
    for (int64_t c = 0; c < init_.size; ++c) {
      const double root = std::sqrt(at(weights_.variance, c, 0) + init_.eps);
      mean_[c] = static_cast<float>(at(weights_.mean, c, 0));
      scale_[c] = static_cast<float>(at(weights_.weight.or_null, c, 1) / root);
      bias_[c] = static_cast<float>(at(weights_.bias.or_null, c, 0));
    }
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const BatchNorm a{args.x->data,
                      args.out->data,
                      mean_,
                      scale_,
                      bias_,
                      init_.size,
                      type_of(args.x),
                      static_cast<Behind>(init_.activation)};
    split(threads_, rows(args.x), args.x->nbytes * 3,
          [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
  }

 private:
  double at(const fk_in* values_or_null, int64_t i, double otherwise) const {
    if (!values_or_null) return otherwise;
    float value = 0;
    const int type = type_of(values_or_null);
    convert_({static_cast<const char*>(values_or_null->data) + i * bytes_of(type), &value,
              /*bias=*/nullptr, type, kF32, /*bias_type=*/0},
             1);
    return value;
  }

  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  float *mean_ = nullptr, *scale_ = nullptr, *bias_ = nullptr;
  decltype(&generic::batch_norm_rows) kernel_ = FK_CPU_PICK(batch_norm_rows);
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(batch_norm, BatchNormOp);

}  // namespace fk::cpu
#endif
