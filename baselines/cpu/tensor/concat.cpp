// SPDX-License-Identifier: Apache-2.0
// concat: copies rows; memory bounds its time.
#ifdef FK_CPU_OPS
#include "fk/ops/concat.h"
#include "op.hpp"

namespace fk::cpu {

struct ConcatOp {
  using op = fk::concat;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    for (int64_t n = 0; n < init.num_parts; ++n)
      need_same(max.x->at[n], max.out, "out: of x's type");
  }
  ConcatOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t bytes = init_.size * args.out->dtype.bits / 8, parts = init_.num_parts;
    auto* out = data<char>(args.out);
    split(threads_, args.out->shape[0], args.out->nbytes * 2, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        for (int64_t n = 0; n < parts; ++n) {
          std::memcpy(out + (t * parts + n) * bytes, data<char>(args.x->at[n]) + t * bytes,
                      static_cast<size_t>(bytes));
        }
      }
    });
  }

 private:
  const op::init& init_;
  const int threads_;
};
FK_OP(concat, ConcatOp);

}  // namespace fk::cpu
#endif
