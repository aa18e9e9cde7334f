// SPDX-License-Identifier: Apache-2.0
// neighbor_table: offset by offset; memory bounds its time.
#include "level.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/neighbor_table.h"
#include "op.hpp"

namespace fk::cpu {

struct NeighborTableOp {
  using op = fk::neighbor_table;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  NeighborTableOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t most = args.pairs->shape[1], outputs = init_.num_outputs;
    share(threads_, args.pairs->shape[0], args.pairs->nbytes + args.table->nbytes,
          [&](int64_t k, int) {
            int32_t* to = data<int32_t>(args.table) + k * outputs;
            const int32_t* pair = data<int32_t>(args.pairs) + 2 * k * most;
            std::fill_n(to, outputs, -1);
            for (int64_t i = 0; i < data<int32_t>(args.pair_counts)[k]; ++i, pair += 2)
              to[pair[1]] = std::max(to[pair[1]], pair[0]);
          });
  }

 private:
  const op::init& init_;
  const int threads_;
};
FK_OP(neighbor_table, NeighborTableOp);

}  // namespace fk::cpu
#endif
