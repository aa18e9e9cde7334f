// SPDX-License-Identifier: Apache-2.0
// moe_sum: the weighted sum of the rows of a token's experts.
#include "simd.hpp"

namespace fk::cpu {
struct MoeSum {
  const void* x;
  const float* weights;
  void* out;
  int64_t channels, chosen;
  int type, out_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(moe_sum, const MoeSum&, int64_t token, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// Columns [begin, end) of one token.
void moe_sum(const MoeSum& a, int64_t token, int64_t begin, int64_t end) {
  const float* w = a.weights + token * a.chosen;
  with_type(a.type, [&]<class T>() {
    with_type(a.out_type, [&]<class O>() {
      const T* x = static_cast<const T*>(a.x) + token * a.chosen * a.channels + begin;
      O* out = static_cast<O*>(a.out) + token * a.channels + begin;
      each_vector(end - begin, [&](int64_t i, auto n) {
        Vf total{};
        for (int64_t k = 0; k < a.chosen; ++k) total += load(x + k * a.channels + i, n) * w[k];
        store(out + i, total, n);
      });
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/moe_sum.h"
#include "op.hpp"

namespace fk::cpu {

struct MoeSumOp {
  using op = fk::moe_sum;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
  }
  MoeSumOp(const fk_host& host, const op::init& init, const op::weights&)
      : size_(init.size), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const MoeSum a{args.x->data,
                   data<float>(args.topk_weights),
                   args.out->data,
                   size_,
                   args.topk_weights->shape[1],
                   type_of(args.x),
                   type_of(args.out)};
    split_tiles(threads_, rows(args.out), size_, args.x->nbytes,
                [&](int64_t row, int64_t begin, int64_t end) { kernel_(a, row, begin, end); });
  }

 private:
  const int64_t size_;
  const int threads_;
  decltype(&generic::moe_sum) kernel_ = FK_CPU_PICK(moe_sum);
};
FK_OP(moe_sum, MoeSumOp);

}  // namespace fk::cpu
#endif
