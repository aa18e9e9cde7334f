// SPDX-License-Identifier: Apache-2.0
// modulate: a factor and a summand for each channel of an image; memory bounds its time.
#include "simd.hpp"

namespace fk::cpu {
struct Modulate {
  const void *x, *scale, *shift;  // scale, shift: null if absent
  void* out;
  int64_t channels, rows, scale_stride, shift_stride;
  float offset;
  int type, scale_type, shift_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(modulate_rows, const Modulate&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

void modulate_rows(const Modulate& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    with_type(a.scale_type, [&]<class S>() {
      with_type(a.shift_type, [&]<class B>() {
        for (int64_t t = begin; t < end; ++t) {
          const int64_t b = t / a.rows;
          const T* x = static_cast<const T*>(a.x) + t * a.channels;
          T* out = static_cast<T*>(a.out) + t * a.channels;
          const S* scale = a.scale ? static_cast<const S*>(a.scale) + b * a.scale_stride : nullptr;
          const B* shift = a.shift ? static_cast<const B*>(a.shift) + b * a.shift_stride : nullptr;
          each_vector(a.channels, [&](int64_t i, auto n) {
            const Vf factor = scale ? load(scale + i, n) + a.offset : splat(a.offset);
            const Vf v = load(x + i, n) * factor;
            store(out + i, shift ? v + load(shift + i, n) : v, n);
          });
        }
      });
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/modulate.h"
#include "op.hpp"

namespace fk::cpu {

struct ModulateOp {
  using op = fk::modulate;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
    if (max.scale.or_null) need_float(max.scale.or_null, "scale: f32, bf16 or f16");
    if (max.shift.or_null) need_float(max.shift.or_null, "shift: f32, bf16 or f16");
  }
  ModulateOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const fk_in *scale = args.scale.or_null, *shift = args.shift.or_null;
    Modulate a{};
    a.x = args.x->data;
    a.out = args.out->data;
    a.scale = data<void>(args.scale);
    a.shift = data<void>(args.shift);
    a.channels = init_.size;
    a.rows = args.x->shape[1];
    a.scale_stride = scale ? scale->strides[0] : 0;
    a.shift_stride = shift ? shift->strides[0] : 0;
    a.offset = static_cast<float>(init_.offset);
    a.type = type_of(args.x);
    a.scale_type = type_or_f32(args.scale);
    a.shift_type = type_or_f32(args.shift);
    split(threads_, rows(args.x), args.x->nbytes * 3,
          [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::modulate_rows) kernel_ = FK_CPU_PICK(modulate_rows);
};
FK_OP(modulate, ModulateOp);

}  // namespace fk::cpu
#endif
