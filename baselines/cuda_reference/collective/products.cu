// SPDX-License-Identifier: Apache-2.0
// linear_all_reduce, linear_reduce_scatter and all_gather_linear. Products are not rounded before
// they are summed over ranks.
#include "fk/ops/all_gather_linear.h"
#include "fk/ops/linear_all_reduce.h"
#include "fk/ops/linear_reduce_scatter.h"
#include "../product.cuh"
#include "ranked.cuh"

namespace {
using namespace fkr;
constexpr int64_t kTiles = 65535;

// `rows` dense rows of x from the first on.
template <class Init>
void multiply(const Init& init, const Ref& x, const fk_in* weight, const Ref& out, int64_t rows, const fk_ctx& ctx) {
  const int64_t n = init.out_features, k = init.in_features;
  multiply_rows(x, Dense{ref(weight), n, k}, Ref{}, out, Rows{nullptr, nullptr, 1, rows, k, 0, n, 0}, rows, 1, kTiles, ctx);
}

// Rows of out are rows of all ranks' products, from `first` on.
template <class Op> struct Summed : Ranked<Op> {
  using Ranked<Op>::Ranked;
  void prepare(const typename Op::forward& max, const fk_memory&) { this->make_buffers(max.x->shape[0] * this->init.out_features * 8); }
  void multiply_and_sum(const typename Op::forward& a, int64_t first, const fk_ctx& ctx) const {
    const Buffers all = this->buffers;
    multiply(this->init, ref(a.x), this->weights.weight, doubles(all, all.rank), a.x->shape[0], ctx);
    this->barrier(ctx);
    const Ref out = ref(a.out);
    const int64_t width = this->init.out_features;
    for_each(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) { store(out, i, reduced(all, first * width + i, FK_SUM)); });
    this->barrier(ctx);
  }
};
struct LinearAllReduce : Summed<fk::linear_all_reduce> {
  using Summed::Summed;
  void forward(const op::forward& a, const fk_ctx& ctx) { multiply_and_sum(a, 0, ctx); }
};
struct LinearReduceScatter : Summed<fk::linear_reduce_scatter> {
  using Summed::Summed;
  void forward(const op::forward& a, const fk_ctx& ctx) { multiply_and_sum(a, buffers.rank * a.out->shape[0], ctx); }
};

struct AllGatherLinear : Ranked<fk::all_gather_linear> {
  using Ranked::Ranked;
  void prepare(const op::forward& max, const fk_memory&) { make_buffers(max.x->shape[0] * init.in_features * 8); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.x->shape[0];
    lay_down(ref(a.x), rows * init.in_features, ctx);
    barrier(ctx);
    for (int r = 0; r < buffers.size; ++r) {
      Ref out = ref(a.out);
      out.data += r * rows * init.out_features * (a.out->dtype.bits / 8);
      multiply(init, doubles(buffers, r), weights.weight, out, rows, ctx);
    }
    barrier(ctx);
  }
};

FK_OP(linear_all_reduce, LinearAllReduce);
FK_OP(linear_reduce_scatter, LinearReduceScatter);
FK_OP(all_gather_linear, AllGatherLinear);

}  // namespace
