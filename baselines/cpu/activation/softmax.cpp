// SPDX-License-Identifier: Apache-2.0
// softmax: the largest element of a row, then exponentials into a row of floats with their sum, and
// one product.
#include "math.hpp"

namespace fk::cpu {
struct SoftmaxRows {
  const void* x;
  void* out;
  int64_t channels;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(softmax_rows, const SoftmaxRows&, int64_t begin, int64_t end, float* row)

namespace fk::cpu::FK_CPU_LEVEL {

// v in the first lanes, and `value` in those behind the end of a row.
FK_INLINE Vf inside(Vf v, Full, float) { return v; }
FK_INLINE Vf inside(Vf v, int64_t n, float value) {
  Vi lane;
  for (int64_t i = 0; i < kLanes; ++i) lane[i] = static_cast<int32_t>(i);
  return lane < (Vi{} + static_cast<int32_t>(n)) ? v : splat(value);
}

// Rows [begin, end); `row` has room for one row.
void softmax_rows(const SoftmaxRows& a, int64_t begin, int64_t end, float* row) {
  with_type(a.type, [&]<class T>() {
    for (int64_t t = begin; t < end; ++t) {
      const T* x = static_cast<const T*>(a.x) + t * a.channels;
      T* out = static_cast<T*>(a.out) + t * a.channels;
      Vf most = splat(-__builtin_inff());
      each_vector(a.channels, [&](int64_t c, auto n) {
        most = max(most, inside(load(x + c, n), n, -__builtin_inff()));
      });
      const float top = max(most);
      Vf sums = {};
      each_vector(a.channels, [&](int64_t c, auto n) {
        const Vf e = exp(load(x + c, n) - top);
        store(row + c, e, n);
        sums += inside(e, n, 0);
      });
      const float share = 1 / sum(sums);
      each_vector(a.channels,
                  [&](int64_t c, auto n) { store(out + c, load(row + c, n) * share, n); });
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/softmax.h"
#include "op.hpp"

namespace fk::cpu {

struct SoftmaxOp {
  using op = fk::softmax;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
    need.scratch = threads_max() * padded(init.size) * 4;
  }
  SoftmaxOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const SoftmaxRows a{args.x->data, args.out->data, init_.size, type_of(args.x)};
    split(threads_, args.x->shape[0], args.x->nbytes * 8,
          [&](int64_t begin, int64_t end, int thread) {
            kernel_(a, begin, end, static_cast<float*>(ctx.scratch) + thread * padded(init_.size));
          });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::softmax_rows) kernel_ = FK_CPU_PICK(softmax_rows);
};
FK_OP(softmax, SoftmaxOp);

}  // namespace fk::cpu
#endif
