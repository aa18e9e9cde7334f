// SPDX-License-Identifier: Apache-2.0
// linear and a collective of NCCL, one after the other, as one op. Kernels which overlap both are
// raced against it. The product is a child, so the host's best provider computes it.
#include <stdexcept>

#include "fk/comm_library.h"
#include "fk/cpp/plugin.hpp"
#include "fk/ops/all_gather_linear.h"
#include "fk/ops/linear.h"
#include "fk/ops/linear_all_reduce.h"
#include "fk/ops/linear_reduce_scatter.h"

namespace fk::nccl {
namespace {

constexpr int32_t kSm[] = {90};
constexpr fk_claims kClaims{
    FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_REDUCED, 0, 1, kSm};

template <class Op>
class Product {
 public:
  using op = Op;
  static constexpr fk_claims claims = kClaims;
  static void supports(const typename Op::init& i, const typename Op::weights&,
                       const typename Op::forward& max, fk_need& need) {
    if (!i.comm) throw unsupported{"comm: a communicator is needed"};
    if (fk_comm_library(i.comm) != FK_LIBRARY_NCCL)
      throw unsupported{"comm: its collectives are not NCCL's, which is not here or not joined"};
    need.scratch = between_rows(max, i) * between_columns(i) * max.x->dtype.bits / 8;
  }
  Product(const fk_host& host, const typename Op::init& i, const typename Op::weights& w)
      : host_(host),
        init_(i),
        linear_init_{i.in_features, i.out_features},
        weights_{w.weight, {nullptr}} {}
  void prepare(const typename Op::forward& max, const fk_memory&) {
    fk_temp between;
    const fk_linear_forward frame = this->frame(max, between, nullptr);
    fk_error error{FK_END(fk_error, text), 0, 0, 0, {}};
    if (host_.child(&host_, &fk_linear_contract, &linear_init_, &weights_, &frame, &linear_,
                    &error) != FK_OK)
      throw std::runtime_error(error.text);
  }
  void forward(const typename Op::forward& a, const fk_ctx& ctx) {
    fk_temp between;
    const fk_linear_forward frame = this->frame(a, between, ctx.scratch);
    const fk_comm* comm = init_.comm;
    if constexpr (kGathers) {
      must(comm->all_gather(comm, a.x, &between.view, ctx.stream));
      multiply(frame, ctx);
    } else {
      multiply(frame, ctx);
      const fk_in* product = fk_as_in(&between.view);
      if constexpr (std::is_same_v<Op, linear_all_reduce>)
        must(comm->all_reduce(comm, product, a.out, FK_SUM, ctx.stream));
      else
        must(comm->reduce_scatter(comm, product, a.out, FK_SUM, ctx.stream));
    }
  }

 private:
  static constexpr bool kGathers = std::is_same_v<Op, all_gather_linear>;

  // The tensor between both: all ranks' rows of x, or this rank's share of out.
  static int64_t between_rows(const typename Op::forward& a, const typename Op::init& i) {
    return a.x->shape[0] * (kGathers ? i.comm->size : 1);
  }
  static int64_t between_columns(const typename Op::init& i) {
    return kGathers ? i.in_features : i.out_features;
  }
  fk_linear_forward frame(const typename Op::forward& a, fk_temp& between, void* scratch) const {
    const int64_t shape[] = {between_rows(a, init_), between_columns(init_)};
    const fk_out* view = fk_temp_view(&between, a.x, scratch, 2, shape);
    return kGathers ? fk_linear_forward{fk_as_in(view), a.out} : fk_linear_forward{a.x, view};
  }
  void multiply(const fk_linear_forward& frame, const fk_ctx& ctx) const {
    if (host_.child_forward(linear_, &frame, &ctx) != FK_OK)
      throw std::runtime_error("linear failed");
  }
  void must(int32_t status) const {
    if (status != FK_OK) throw std::runtime_error(init_.comm->error(init_.comm));
  }
  const fk_host& host_;
  const typename Op::init& init_;
  const fk_linear_init linear_init_;
  const fk_linear_weights weights_;
  fk_child* linear_ = nullptr;
};

using LinearAllReduce = Product<linear_all_reduce>;
using LinearReduceScatter = Product<linear_reduce_scatter>;
using AllGatherLinear = Product<all_gather_linear>;
FK_OP(linear_all_reduce, LinearAllReduce);
FK_OP(linear_reduce_scatter, LinearReduceScatter);
FK_OP(all_gather_linear, AllGatherLinear);

}  // namespace
}  // namespace fk::nccl
