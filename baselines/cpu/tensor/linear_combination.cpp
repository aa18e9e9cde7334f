// SPDX-License-Identifier: Apache-2.0
// linear_combination: one pass over the result, which reads all terms; memory bounds its time.
#include "simd.hpp"

namespace fk::cpu {
struct LinearCombination {
  const void* const* x;
  const float* coefficients;
  void* out;
  int64_t terms;
  int type, out_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(combine_range, const LinearCombination&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

void combine_range(const LinearCombination& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    with_type(a.out_type, [&]<class O>() {
      O* out = static_cast<O*>(a.out) + begin;
      each_vector(end - begin, [&](int64_t i, auto n) {
        Vf sum = load(out + i, n) * a.coefficients[0];
        for (int64_t k = 0; k < a.terms; ++k)
          sum += load(static_cast<const T*>(a.x[k]) + begin + i, n) * a.coefficients[k + 1];
        store(out + i, sum, n);
      });
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/linear_combination.h"
#include "op.hpp"

namespace fk::cpu {

struct LinearCombinationOp {
  using op = fk::linear_combination;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    for (int64_t k = 0; k < init.num_terms; ++k) {
      need_float(max.x->at[k], "x: f32, bf16 or f16");
      need_same(max.x->at[k], max.x->at[0], "x: one type");
    }
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch = init.num_terms * static_cast<int64_t>(sizeof(void*));
  }
  LinearCombinationOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    auto* x = static_cast<const void**>(ctx.scratch);
    for (int64_t k = 0; k < init_.num_terms; ++k) x[k] = args.x->at[k]->data;
    const LinearCombination a{x,
                              data<float>(args.coefficients),
                              args.out->data,
                              init_.num_terms,
                              type_of(args.x->at[0]),
                              type_of(args.out)};
    split_tiles(threads_, 1, fk_numel(args.x->at[0]), args.out->nbytes * (init_.num_terms + 2),
                [&](int64_t, int64_t begin, int64_t end) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::combine_range) kernel_ = FK_CPU_PICK(combine_range);
};
FK_OP(linear_combination, LinearCombinationOp);

}  // namespace fk::cpu
#endif
