// SPDX-License-Identifier: Apache-2.0
// add: a + b; memory bounds its time.
#include "simd.hpp"

namespace fk::cpu {
struct Add {
  const void *a, *b;
  void* out;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(add_range, const Add&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

void add_range(const Add& args, int64_t begin, int64_t end) {
  with_type(args.type, [&]<class T>() {
    const T *a = static_cast<const T*>(args.a) + begin, *b = static_cast<const T*>(args.b) + begin;
    T* out = static_cast<T*>(args.out) + begin;
    each_vector(end - begin,
                [&](int64_t i, auto n) { store(out + i, load(a + i, n) + load(b + i, n), n); });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/add.h"
#include "op.hpp"

namespace fk::cpu {

struct AddOp {
  using op = fk::add;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.a, "a: f32, bf16 or f16");
    need_same(max.a, max.b, "b: of a's type");
    need_same(max.a, max.out, "out: of a's type");
  }
  AddOp(const fk_host& host, const op::init&, const op::weights&) : threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const Add a{args.a->data, args.b->data, args.out->data, type_of(args.a)};
    split_tiles(threads_, 1, fk_numel(args.a), args.a->nbytes * 3,
                [&](int64_t, int64_t begin, int64_t end) { kernel_(a, begin, end); });
  }

 private:
  const int threads_;
  decltype(&generic::add_range) kernel_ = FK_CPU_PICK(add_range);
};
FK_OP(add, AddOp);

}  // namespace fk::cpu
#endif
