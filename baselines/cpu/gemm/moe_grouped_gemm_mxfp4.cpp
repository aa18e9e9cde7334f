// SPDX-License-Identifier: Apache-2.0
// moe_grouped_gemm_mxfp4: each thread takes a range of the outputs. It unpacks a row of the weight
// to float32 once and multiplies it with all rows of its expert. The weight of an expert without
// rows is not read.
#include "simd.hpp"

namespace fk::cpu {
// A row of the weight: e2m1 values, two per byte, and a power of two (e8m0) for every 32.
struct Mxfp4Row {
  const uint8_t *packed, *powers;  // [K/2], [K/32]
  int64_t k;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(mxfp4_unpack, const Mxfp4Row&, float* to)
FK_CPU_KERNEL(mxfp4_dot, const float* a, const float* b, int64_t count, float* result)

namespace fk::cpu::FK_CPU_LEVEL {

void mxfp4_unpack(const Mxfp4Row& a, float* to) {
  static constexpr float kE2m1[] = {0,    0.5f,  1,    1.5f,  2,    3,    4,    6,
                                    -0.f, -0.5f, -1.f, -1.5f, -2.f, -3.f, -4.f, -6.f};
  for (int64_t block = 0; block < a.k / 32; ++block) {
    // The power is 2^(p - 127), and 255 is NaN. The smallest, 2^-127, is a subnormal float32.
    const uint32_t p = a.powers[block];
    const float power = bits_as<float>(p == 0 ? 0x00400000u : p == 255 ? 0x7fc00000u : p << 23);
    const uint8_t* packed = a.packed + block * 16;
    float* out = to + block * 32;
    for (int i = 0; i < 16; ++i) {
      out[2 * i] = kE2m1[packed[i] & 15] * power;
      out[2 * i + 1] = kE2m1[packed[i] >> 4] * power;
    }
  }
}

void mxfp4_dot(const float* a, const float* b, int64_t count, float* result) {
  Vf total{};
  each_vector(count, [&](int64_t i, auto n) { total += load(a + i, n) * load(b + i, n); });
  *result = fk::cpu::FK_CPU_LEVEL::sum(total);
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/moe_grouped_gemm_mxfp4.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct MoeGroupedGemmMxfp4Op {
  using op = fk::moe_grouped_gemm_mxfp4;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
    if (weights.bias.or_null) need_same(max.x, weights.bias.or_null, "bias: of x's type");
    if (init.in_features % 32) throw unsupported{"in_features: a multiple of 32 only"};
    // x in float32, and an unpacked row per thread
    need.scratch = (max.x->shape[0] + threads_max()) * init.in_features * 4;
  }
  MoeGroupedGemmMxfp4Op(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t k = init_.in_features, n = init_.out_features, rows = args.x->shape[0];
    const int type = type_of(args.x);
    auto* x = static_cast<float*>(ctx.scratch);
    float* unpacked = x + rows * k;
    split(threads_, rows, rows * k * 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        convert_({data<char>(args.x) + i * k * bytes_of(type), x + i * k, /*bias=*/nullptr, type,
                  kF32, /*bias_type=*/0},
                 k);
    });
    const auto* offsets = data<int32_t>(args.expert_offsets);
    const auto* ids = data<int32_t>(args.row_ids);
    split(threads_, n, init_.num_experts * n * k, [&](int64_t begin, int64_t end, int thread) {
      float* weight = unpacked + thread * k;
      for (int64_t e = 0; e < init_.num_experts; ++e) {
        if (offsets[e] == offsets[e + 1]) continue;
        for (int64_t row = begin; row < end; ++row) {
          const int64_t at = e * n + row;
          unpack_({data<uint8_t>(weights_.weight) + at * (k / 2),
                   data<uint8_t>(weights_.weight_scale) + at * (k / 32), k},
                  weight);
          for (int64_t j = offsets[e]; j < offsets[e + 1]; ++j) {
            float sum;
            dot_(x + ids[j] / init_.top_k * k, weight, k, &sum);
            const char* bias =
                weights_.bias.or_null ? data<char>(weights_.bias) + at * bytes_of(type) : nullptr;
            convert_({&sum, data<char>(args.out) + (ids[j] * n + row) * bytes_of(type), bias, kF32,
                      type, type},
                     1);
          }
        }
      }
    });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::mxfp4_unpack) unpack_ = FK_CPU_PICK(mxfp4_unpack);
  decltype(&generic::mxfp4_dot) dot_ = FK_CPU_PICK(mxfp4_dot);
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(moe_grouped_gemm_mxfp4, MoeGroupedGemmMxfp4Op);

}  // namespace fk::cpu
#endif
