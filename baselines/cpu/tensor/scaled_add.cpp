// SPDX-License-Identifier: Apache-2.0
// scaled_add: x + scale * y, or scale * y without x; memory bounds its time.
#include "simd.hpp"

namespace fk::cpu {
struct ScaledAdd {
  const void *x, *y;  // x: null if absent
  void* out;
  float scale;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(scaled_add_range, const ScaledAdd&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

void scaled_add_range(const ScaledAdd& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    const T* y = static_cast<const T*>(a.y) + begin;
    T* out = static_cast<T*>(a.out) + begin;
    if (!a.x)
      return each_vector(end - begin,
                         [&](int64_t i, auto n) { store(out + i, load(y + i, n) * a.scale, n); });
    const T* x = static_cast<const T*>(a.x) + begin;
    each_vector(end - begin, [&](int64_t i, auto n) {
      store(out + i, load(x + i, n) + load(y + i, n) * a.scale, n);
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/scaled_add.h"
#include "op.hpp"

namespace fk::cpu {

struct ScaledAddOp {
  using op = fk::scaled_add;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.y, "y: f32, bf16 or f16");
    if (max.x.or_null) need_same(max.y, max.x.or_null, "x: of y's type");
    need_same(max.y, max.out, "out: of y's type");
  }
  ScaledAddOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const ScaledAdd a{data<void>(args.x), args.y->data, args.out->data,
                      static_cast<float>(init_.scale), type_of(args.y)};
    split_tiles(threads_, 1, fk_numel(args.y), args.y->nbytes * 3,
                [&](int64_t, int64_t begin, int64_t end) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::scaled_add_range) kernel_ = FK_CPU_PICK(scaled_add_range);
};
FK_OP(scaled_add, ScaledAddOp);

}  // namespace fk::cpu
#endif
