// SPDX-License-Identifier: Apache-2.0
// spmm_csr: for each row of the sparse matrix, the sum of the rows which its entries name.
#include "fk/ops/spmm_csr.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct SpmmCsr : Base<spmm_csr> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.values, max.x, max.out);
    need.scratch = (init.size + 1) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    double* sum = scratch.take(init.size);
    double* factor = scratch.take(1);
    for (int64_t m = 0; m < args.out->shape[0]; ++m) {
      std::fill_n(sum, init.size, 0.0);
      const int64_t last = index<int32_t>(args.indptr, m + 1);
      for (int64_t j = index<int32_t>(args.indptr, m); j < last; ++j) {
        load(args.values, j, 1, factor);
        add_scaled(args.x, offset(args.x, index<int32_t>(args.indices, j)), init.size, *factor,
                   sum);
      }
      store(args.out, offset(args.out, m), init.size, sum);
    }
  }
};
FK_OP(spmm_csr, SpmmCsr);

}  // namespace
}  // namespace fk::reference
