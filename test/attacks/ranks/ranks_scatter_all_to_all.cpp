// SPDX-License-Identifier: Apache-2.0
// honest: several ranks: reduce_scatter by an all_to_all of the parts, which everybody adds up for
// itself in the order of the ranks
#include <algorithm>

#include "../letters.hpp"
#include "fk/ops/reduce_scatter.h"

namespace {

struct ByAllToAll {
  using op = fk::reduce_scatter;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (!init.comm) throw fk::unsupported{"there is one rank"};
    if (!fk::is_float(max.x)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  ByAllToAll(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) const {
    std::vector<char> come(static_cast<size_t>(args.x->nbytes));
    fk_temp memory;
    const fk_out* parts = fk_temp_view(&memory, args.x, come.data(), 2, args.x->shape);
    const fk_comm* comm = init.comm;
    attack::must(comm, comm->all_to_all(comm, args.x, parts, ctx.stream));
    const int64_t n = fk_numel(fk_as_in(args.out));
    std::vector<float> sum(static_cast<size_t>(n)), next(sum.size());
    fk::load(fk_as_in(parts), 0, n, sum.data());
    for (int r = 1; r < comm->size; ++r) {
      fk::load(fk_as_in(parts), r * n, n, next.data());
      for (size_t i = 0; i < sum.size(); ++i)
        sum[i] = init.reduction == FK_SUM   ? sum[i] + next[i]
                 : init.reduction == FK_MAX ? std::max(sum[i], next[i])
                                            : std::min(sum[i], next[i]);
    }
    fk::store(args.out, 0, n, sum.data());
  }
};
FK_OP(reduce_scatter, ByAllToAll);

}  // namespace
FK_PLUGIN("ranks_scatter_all_to_all", "0");
