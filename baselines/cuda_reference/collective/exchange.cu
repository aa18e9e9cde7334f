// SPDX-License-Identifier: Apache-2.0
// all_reduce, reduce_scatter, all_gather, all_gather_columns, all_to_all, vocab_parallel_embedding, all_reduce_add_rms_norm.
#include "fk/ops/all_gather.h"
#include "fk/ops/all_gather_columns.h"
#include "fk/ops/all_reduce.h"
#include "fk/ops/all_reduce_add_rms_norm.h"
#include "fk/ops/all_to_all.h"
#include "fk/ops/reduce_scatter.h"
#include "fk/ops/vocab_parallel_embedding.h"
#include "ranked.cuh"

namespace {
using namespace fkr;

int64_t count_of(const fk_in* view) { return view->nbytes / (view->dtype.bits / 8); }

// Every rank has the elements of out from `first` on, out of all shares in the buffers.
template <class Op> struct Reduction : Ranked<Op> {
  using Ranked<Op>::Ranked;
  void prepare(const typename Op::forward& max, const fk_memory&) { this->make_buffers(count_of(max.x) * 8); }
  void reduce(const typename Op::forward& a, int64_t first, const fk_ctx& ctx) const {
    this->lay_down(ref(a.x), count_of(a.x), ctx);
    this->barrier(ctx);
    const Buffers all = this->buffers;
    const Ref out = ref(a.out);
    const int64_t op = this->init.reduction;
    for_each(count_of(fk_as_in(a.out)), ctx, [=] __device__(int64_t i) { store(out, i, reduced(all, first + i, op)); });
    this->barrier(ctx);
  }
};
struct AllReduce : Reduction<fk::all_reduce> {
  using Reduction::Reduction;
  void forward(const op::forward& a, const fk_ctx& ctx) { reduce(a, 0, ctx); }
};
struct ReduceScatter : Reduction<fk::reduce_scatter> {
  using Reduction::Reduction;
  void forward(const op::forward& a, const fk_ctx& ctx) { reduce(a, buffers.rank * count_of(fk_as_in(a.out)), ctx); }
};

// Copies data as it is. place(byte of out): its rank and byte.
struct Place {
  int64_t rank, byte;
};
template <class Op> struct Copies : Carried<Op> {
  using Carried<Op>::Carried;
  static void supports(const typename Op::init& init, const typename Op::weights&, const typename Op::forward& max, fk_need& need) {
    Carried<Op>::need_buffers(init.comm, max.x->nbytes, need);
  }
  void prepare(const typename Op::forward& max, const fk_memory& memory) { this->make_buffers(max.x->nbytes, memory); }
  template <class Find> void exchange(const typename Op::forward& a, const fk_ctx& ctx, Find find) const {
    copy_bytes(this->buffers.at[this->buffers.rank], a.x->data, a.x->nbytes, ctx);
    this->share(a.x, ctx);
    const Buffers all = this->buffers;
    char* out = static_cast<char*>(a.out->data);
    for_each(a.out->nbytes, ctx, [=] __device__(int64_t i) {
      const Place from = find(i);
      out[i] = all.at[from.rank][from.byte];
    });
    this->done(ctx);
  }
};
struct AllGather : Copies<fk::all_gather> {
  using Copies::Copies;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t part = a.x->nbytes;
    exchange(a, ctx, [=] __device__(int64_t i) { return Place{i / part, i % part}; });
  }
};
struct AllGatherColumns : Copies<fk::all_gather_columns> {
  using Copies::Copies;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t width = a.x->shape[1] * (a.x->dtype.bits / 8), all = a.out->shape[1] * (a.x->dtype.bits / 8);
    exchange(a, ctx, [=] __device__(int64_t i) { return Place{i % all / width, i / all * width + i % all % width}; });
  }
};
struct AllToAll : Copies<fk::all_to_all> {
  using Copies::Copies;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t part = a.x->nbytes / buffers.size, rank = buffers.rank;
    exchange(a, ctx, [=] __device__(int64_t i) { return Place{i / part, rank * part + i % part}; });
  }
};

struct VocabParallelEmbedding : Plain<fk::vocab_parallel_embedding> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (!init.comm) throw fk::unsupported{"comm: a communicator is needed"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref table = ref(weights.table), out = ref(a.out);
    const auto* ids = fk::data<int64_t>(a.ids);
    const int64_t rows = init.num_embeddings_per_partition, first = init.comm->rank * rows, width = init.embedding_dim;
    for_each(a.ids->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t row = ids[i / width] - first;
      store(out, i, row >= 0 && row < rows ? load(table, row * width + i % width) : 0);
    });
  }
};

// The sums stand behind the shares. They are not rounded before the norm.
struct AllReduceAddRmsNorm : Ranked<fk::all_reduce_add_rms_norm> {
  using Ranked::Ranked;
  void prepare(const op::forward& max, const fk_memory&) { make_buffers(2 * count_of(max.x) * 8); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t width = init.hidden_size, count = count_of(a.x);
    lay_down(ref(a.x), count, ctx);
    barrier(ctx);
    const Buffers all = buffers;
    const Ref residual = ref(a.residual), weight = ref(weights.weight), out = ref(a.out);
    const double eps = init.eps;
    for_rows(a.x->shape[0], ctx, [=] __device__(int64_t t) {
      double* sums = all.doubles(all.rank) + count + t * width;
      double squares = 0;
      for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
        const double v = reduced(all, t * width + c, FK_SUM) + load(residual, t * width + c);
        sums[c] = v;
        squares += v * v;
        store(residual, t * width + c, v);
      }
      const double scale = 1 / sqrt(block_sum(squares) / double(width) + eps);
      for (int64_t c = threadIdx.x; c < width; c += blockDim.x) store(out, t * width + c, sums[c] * scale * load(weight, c));
    });
    barrier(ctx);
  }
};

FK_OP(all_reduce, AllReduce);
FK_OP(reduce_scatter, ReduceScatter);
FK_OP(all_gather, AllGather);
FK_OP(all_gather_columns, AllGatherColumns);
FK_OP(all_to_all, AllToAll);
FK_OP(vocab_parallel_embedding, VocabParallelEmbedding);
FK_OP(all_reduce_add_rms_norm, AllReduceAddRmsNorm);

}  // namespace
