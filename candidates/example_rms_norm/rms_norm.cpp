// SPDX-License-Identifier: Apache-2.0
// An example of a candidate: rms_norm on the CPU for float32 and bfloat16. One pass makes the sum
// of squares, with eight partial sums which the compiler keeps in vector registers.
#include "fk/ops/rms_norm.h"

#include <cmath>
#include <cstring>

namespace {

float get(const float* p, int64_t i) { return p[i]; }
void put(float* p, int64_t i, float v) { p[i] = v; }
float get(const uint16_t* p, int64_t i) {
  const uint32_t bits = uint32_t(p[i]) << 16;
  float v;
  std::memcpy(&v, &bits, 4);
  return v;
}
void put(uint16_t* p, int64_t i, float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, 4);
  p[i] = v != v ? 0x7fc0 : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct RmsNorm {
  using op = fk::rms_norm;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max, fk_need&) {
    const int type = FK_DTYPE(max.x);
    if (type != FK_F32 && type != FK_BF16) throw fk::unsupported{"x: float32 and bfloat16 only"};
    if (weights.weight.or_null && FK_DTYPE(weights.weight.or_null) != type) throw fk::unsupported{"weight: the dtype of x only"};
    if (max.residual.or_null && FK_DTYPE(max.residual.or_null) != type) throw fk::unsupported{"residual: the dtype of x only"};
  }
  RmsNorm(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}

  template <class T>
  void rows(const op::forward& args) {
    const int64_t tokens = args.x->shape[0], width = init.hidden_size;
    const T *x = fk::data<T>(args.x), *weight = fk::data<T>(weights.weight);
    T *out = fk::data<T>(args.out), *residual = fk::data<T>(args.residual);
    for (int64_t t = 0; t < tokens; ++t, x += width, out += width) {
      float sums[8] = {};
      const T* row = x;
      if (residual) {
        for (int64_t i = 0; i < width; ++i) put(residual, i, get(x, i) + get(residual, i));
        row = residual;
      }
      for (int64_t i = 0; i < width; ++i) sums[i % 8] += get(row, i) * get(row, i);
      float sum = 0;
      for (const float s : sums) sum += s;
      const float scale = 1 / std::sqrt(sum / float(width) + float(init.eps));
      for (int64_t i = 0; i < width; ++i) put(out, i, get(row, i) * scale * (weight ? get(weight, i) : 1));
      if (residual) residual += width;
    }
  }
  void forward(const op::forward& args, const fk_ctx&) {
    FK_DTYPE(args.x) == FK_F32 ? rows<float>(args) : rows<uint16_t>(args);
  }
};
FK_OP(rms_norm, RmsNorm);

}  // namespace

FK_PLUGIN("example_rms_norm", "0.1.0");
