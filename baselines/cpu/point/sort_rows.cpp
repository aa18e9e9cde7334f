// SPDX-License-Identifier: Apache-2.0
// sort_rows: one thread sorts.
#include "level.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/sort_rows.h"
#include "point/curve.hpp"

namespace fk::cpu {

struct SortRowsOp {
  using op = fk::sort_rows;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  SortRowsOp(const fk_host&, const op::init&, const op::weights&) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    sort_by(data<int64_t>(args.keys), args.keys->shape[0], data<int32_t>(args.rows));
    for (int64_t i = 0; i < args.keys->shape[0]; ++i)
      data<int32_t>(args.ranks)[data<int32_t>(args.rows)[i]] = static_cast<int32_t>(i);
  }
};
FK_OP(sort_rows, SortRowsOp);

}  // namespace fk::cpu
#endif
