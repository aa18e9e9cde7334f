// SPDX-License-Identifier: Apache-2.0
// The provider `nccl`: the communicator's collectives as ops, if they are NCCL's.
#include <stdexcept>

#include "fk/comm_library.h"
#include "fk/cpp/plugin.hpp"
#include "fk/ops/all_gather.h"
#include "fk/ops/all_gather_columns.h"
#include "fk/ops/all_reduce.h"
#include "fk/ops/all_to_all.h"
#include "fk/ops/reduce_scatter.h"

FK_PLUGIN("nccl", "0.1.0");

namespace fk::nccl {
namespace {

constexpr int32_t kSm[] = {90};
// NCCL's choice depends on the size, so a single row may have other bits.
constexpr fk_claims kClaims{
    FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_REDUCED, 0, 1, kSm};

void must(const fk_comm* comm, int32_t status) {
  if (status != FK_OK) throw std::runtime_error(comm->error(comm));
}

template <class Op>
struct Collective {
  using op = Op;
  static constexpr fk_claims claims = kClaims;
  const fk_comm* comm;
  const typename Op::init& init;
  static void supports(const typename Op::init& i, const typename Op::weights&,
                       const typename Op::forward&, fk_need&) {
    if (!i.comm) throw unsupported{"comm: a communicator is needed"};
    if (fk_comm_library(i.comm) != FK_LIBRARY_NCCL)
      throw unsupported{"comm: its collectives are not NCCL's, which is not here or not joined"};
  }
  Collective(const fk_host&, const typename Op::init& i, const typename Op::weights&)
      : comm(i.comm), init(i) {}
  void prepare(const typename Op::forward&, const fk_memory&) {}
};

struct AllReduce : Collective<all_reduce> {
  using Collective::Collective;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    must(comm, comm->all_reduce(comm, a.x, a.out, init.reduction, ctx.stream));
  }
};
FK_OP(all_reduce, AllReduce);

struct ReduceScatter : Collective<reduce_scatter> {
  using Collective::Collective;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    must(comm, comm->reduce_scatter(comm, a.x, a.out, init.reduction, ctx.stream));
  }
};
FK_OP(reduce_scatter, ReduceScatter);

struct AllGather : Collective<all_gather> {
  using Collective::Collective;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    must(comm, comm->all_gather(comm, a.x, a.out, ctx.stream));
  }
};
FK_OP(all_gather, AllGather);

// One row is a plain all_gather.
struct AllGatherColumns : Collective<all_gather_columns> {
  using Collective::Collective;
  static void supports(const op::init& i, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    Collective::supports(i, w, max, need);
    if (max.x->shape[0] > 1) throw unsupported{"x: one row only"};
    if (i.out_features != i.comm->size * max.x->shape[1])
      throw unsupported{"out_features: as many columns as the ranks have only"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    must(comm, comm->all_gather(comm, a.x, a.out, ctx.stream));
  }
};
FK_OP(all_gather_columns, AllGatherColumns);

struct AllToAll : Collective<all_to_all> {
  using Collective::Collective;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    must(comm, comm->all_to_all(comm, a.x, a.out, ctx.stream));
  }
};
FK_OP(all_to_all, AllToAll);

}  // namespace
}  // namespace fk::nccl
