// SPDX-License-Identifier: Apache-2.0
// silu_and_mul_quantize: a thread makes its rows of the product in float32, and then their codes.
#include "math.hpp"

namespace fk::cpu {
struct SiluRows {
  const void* x;
  float* out;
  int64_t size;  // columns of out; x has twice as many
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(silu_rows, const SiluRows&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

void silu_rows(const SiluRows& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    for (int64_t t = begin; t < end; ++t) {
      const T* gate = static_cast<const T*>(a.x) + t * 2 * a.size;
      each_vector(a.size, [&](int64_t i, auto n) {
        const Vf g = load(gate + i, n);
        store(a.out + t * a.size + i, g / (1.f + exp(-g)) * load(gate + a.size + i, n), n);
      });
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/silu_and_mul_quantize.h"
#include "quantize.hpp"

namespace fk::cpu {

struct SiluAndMulQuantizeOp {
  using op = fk::silu_and_mul_quantize;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    if (FK_DTYPE(max.out) != FK_F8E4M3) throw unsupported{"out: f8e4m3"};
    need.scratch = padded(fk_numel(max.x) / 2) * 4 +
                   Quantizer::scratch_bytes(max.x->shape[0], max.scale_out->shape[1]);
  }
  SiluAndMulQuantizeOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init) {
    quantizer_.threads = threads_of(host);
    quantizer_.eps = static_cast<float>(init.eps);
    quantizer_.power_of_two = static_cast<int>(init.power_of_two);
  }
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    auto* rows = static_cast<float*>(ctx.scratch);
    const SiluRows product{args.x->data, rows, init_.size, type_of(args.x)};
    QuantizeRows a{};
    a.x = rows, a.step = a.columns = init_.size, a.type = kF32;
    a.across = args.scale_out->shape[1];
    a.group_rows = init_.group_rows, a.group_columns = init_.group_columns;
    a.out = static_cast<uint8_t*>(args.out->data);
    quantizer_.run(a, args.x->shape[0], args.scale, data<float>(args.scale_out),
                   rows + padded(fk_numel(args.x) / 2),
                   [&](int64_t begin, int64_t end) { kernel_(product, begin, end); });
  }

 private:
  const op::init& init_;
  Quantizer quantizer_;
  decltype(&generic::silu_rows) kernel_ = FK_CPU_PICK(silu_rows);
};
FK_OP(silu_and_mul_quantize, SiluAndMulQuantizeOp);

}  // namespace fk::cpu
#endif
