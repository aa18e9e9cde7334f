// SPDX-License-Identifier: Apache-2.0
// dequantize: codes times the scales of their groups.
#include "fp8.hpp"

namespace fk::cpu {
struct DequantizeRows {
  const uint8_t* x;
  const float* scales;
  void* out;
  int64_t columns, group_rows, group_columns, across;
  int type, whole;  // of out; whole: int8, else f8e4m3
};
}  // namespace fk::cpu
FK_CPU_KERNEL(dequantize_rows, const DequantizeRows&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

namespace {

FK_INLINE Vf widen_int8(const uint8_t* p) {
#if defined(__AVX512F__)
  const Vi whole = (Vi)_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__AVX2__)
  const Vi whole = (Vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
  typedef int8_t Vs __attribute__((vector_size(kLanes)));
  const Vi whole = __builtin_convertvector(read<Vs>(p), Vi);
#endif
  return __builtin_convertvector(whole, Vf);
}

// Codes [0, n) as floats.
FK_INLINE Vf widen_codes(const uint8_t* p, bool whole, Full) {
  return whole ? widen_int8(p) : widen_fp8(p);
}
FK_INLINE Vf widen_codes(const uint8_t* p, bool whole, int64_t n) {
  uint8_t part[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return widen_codes(part, whole, Full{});
}

}  // namespace

void dequantize_rows(const DequantizeRows& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    for (int64_t t = begin; t < end; ++t) {
      const float* scales = a.scales + t / a.group_rows * a.across;
      for (int64_t b = 0; b < a.across; ++b) {
        const int64_t first = b * a.group_columns, left = a.columns - first;
        const uint8_t* x = a.x + t * a.columns + first;
        T* out = static_cast<T*>(a.out) + t * a.columns + first;
        const float scale = scales[b];
        each_vector(left < a.group_columns ? left : a.group_columns, [&](int64_t i, auto n) {
          store(out + i, widen_codes(x + i, a.whole != 0, n) * scale, n);
        });
      }
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/dequantize.h"
#include "op.hpp"

namespace fk::cpu {

struct DequantizeOp {
  using op = fk::dequantize;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.out, "out: f32, bf16 or f16");
  }
  DequantizeOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    DequantizeRows a{};
    a.x = data<uint8_t>(args.x), a.scales = data<float>(args.scale), a.out = args.out->data;
    a.columns = init_.size, a.group_rows = init_.group_rows;
    a.group_columns = init_.group_columns, a.across = args.scale->shape[1];
    a.type = type_of(args.out), a.whole = FK_DTYPE(args.x) == FK_I8;
    split(threads_, args.x->shape[0], args.x->nbytes + args.out->nbytes,
          [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::dequantize_rows) kernel_ = FK_CPU_PICK(dequantize_rows);
};
FK_OP(dequantize, DequantizeOp);

}  // namespace fk::cpu
#endif
