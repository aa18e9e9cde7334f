// SPDX-License-Identifier: Apache-2.0
// quantize_nvfp4: a block of 16 columns at a time, whose values stay in registers or in the
// first-level cache.
#include "fp8.hpp"

namespace fk::cpu {
struct Nvfp4Rows {
  const void* x;
  uint8_t *out, *scales;
  int64_t columns;
  float global;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(quantize_nvfp4, const Nvfp4Rows&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// Codes of e2m1: 0, 0.5, 1, 1.5, 2, 3, 4 and 6 to nearest even and saturated, and the sign.
FK_INLINE Vu narrow_e2m1(Vf v) {
  const Vu bits = bits_as<Vu>(v);
  const Vf size = min(bits_as<Vf>(bits & 0x7fffffffu), splat(6.f)), magic = splat(12582912.f);
  // Whole numbers are in the low bits of a sum with 1.5 * 2^23.
  const Vu halves = bits_as<Vu>(size * 2.f + magic) & 15u;
  const Vu ones = (bits_as<Vu>(size + magic) & 15u) + 2u;
  const Vu twos = (bits_as<Vu>(size * 0.5f + magic) & 15u) + 4u;
  const Vu large = size < splat(4.f) ? ones : twos;
  return (size < splat(2.f) ? halves : large) | (bits >> 28 & 8u);
}

void quantize_nvfp4(const Nvfp4Rows& a, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 16;
  with_type(a.type, [&]<class T>() {
    for (int64_t block = begin * a.columns / kBlock; block < end * a.columns / kBlock; ++block) {
      const T* x = static_cast<const T*>(a.x) + block * kBlock;
      uint8_t* out = a.out + block * kBlock / 2;
      Vf top{};
      for (int64_t i = 0; i < kBlock; i += kLanes)
        top = max(bits_as<Vf>(bits_as<Vu>(load(x + i)) & 0x7fffffffu), top);
      uint8_t scale[kLanes];
      store_bytes(scale, narrow_fp8(splat(a.global * max(top) / 6.f)));
      a.scales[block] = scale[0];
      const Vf wide = widen_fp8(scale);
      if (!(wide[0] != 0)) {
        __builtin_memset(out, 0, kBlock / 2);
        continue;
      }
      alignas(64) uint32_t codes[kBlock];
      for (int64_t i = 0; i < kBlock; i += kLanes) {
        const Vu c = narrow_e2m1(load(x + i) * a.global / wide);
        __builtin_memcpy(codes + i, &c, sizeof c);
      }
      for (int64_t i = 0; i < kBlock / 2; ++i)
        out[i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/quantize_nvfp4.h"
#include "op.hpp"

namespace fk::cpu {

struct QuantizeNvfp4Op {
  using op = fk::quantize_nvfp4;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    if (FK_DTYPE(max.out) != FK_U8 || FK_DTYPE(max.block_scale) != FK_F8E4M3)
      throw unsupported{"out: u8, block_scale: f8e4m3"};
    if (init.size % 16) throw unsupported{"size is no multiple of 16"};
  }
  QuantizeNvfp4Op(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const Nvfp4Rows a{args.x->data,
                      data<uint8_t>(args.out),
                      static_cast<uint8_t*>(args.block_scale->data),
                      init_.size,
                      *data<float>(args.global_scale),
                      type_of(args.x)};
    split(threads_, rows(args.x), args.x->nbytes * 3,
          [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::quantize_nvfp4) kernel_ = FK_CPU_PICK(quantize_nvfp4);
};
FK_OP(quantize_nvfp4, QuantizeNvfp4Op);

}  // namespace fk::cpu
#endif
