// SPDX-License-Identifier: Apache-2.0
// quantize_int8: Quantizer of quantize.hpp as an op.
#ifdef FK_CPU_OPS
#include "fk/ops/quantize_int8.h"
#include "quantize.hpp"

namespace fk::cpu {

struct QuantizeInt8Op {
  using op = fk::quantize_int8;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    if (FK_DTYPE(max.out) != FK_I8) throw unsupported{"out: i8"};
    need.scratch = Quantizer::scratch_bytes(max.x->shape[0], max.scale_out->shape[1]);
  }
  QuantizeInt8Op(const fk_host& host, const op::init& init, const op::weights&) : init_(init) {
    quantizer_.largest = 127;
    quantizer_.eps = 0;
    quantizer_.power_of_two = 0;
    quantizer_.threads = threads_of(host);
  }
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    QuantizeRows a{};
    a.x = args.x->data, a.step = args.x->strides[0], a.type = type_of(args.x);
    a.columns = init_.size, a.across = args.scale_out->shape[1];
    a.group_rows = init_.group_rows, a.group_columns = init_.size;
    a.out = data<uint8_t>(args.out), a.whole = FK_DTYPE(args.out) == FK_I8;
    quantizer_.run(a, args.x->shape[0], args.scale, data<float>(args.scale_out), ctx.scratch,
                   [](int64_t, int64_t) {});
  }

 private:
  const op::init& init_;
  Quantizer quantizer_;
};
FK_OP(quantize_int8, QuantizeInt8Op);

}  // namespace fk::cpu
#endif
