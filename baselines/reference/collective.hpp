// SPDX-License-Identifier: Apache-2.0
// What ops with a communicator share here. Where a rank's part of the work goes to others, it is
// laid into symmetric buffers between two barriers.
#pragma once
#include <cstring>

#include "op.hpp"

namespace fk::reference {

inline void need_comm(const fk_comm* comm) {
  if (!comm) throw unsupported{"comm: a communicator is needed"};
}

inline void must(const fk_comm* comm, int32_t status) {
  if (status != FK_OK) throw std::runtime_error(comm->error(comm));
}

// The sum over the ranks of `count` doubles on each, in the order of the ranks.
inline void sum_over_ranks(const fk_comm* comm, double* values, int64_t count, void* stream) {
  const int64_t shape[] = {count}, strides[] = {1};
  fk_out view{};
  view.data = values;
  view.device_type = FK_CPU;
  view.ndim = 1;
  view.dtype = {2, 64, 1};
  view.shape = shape;
  view.strides = strides;
  view.nbytes = count * 8;
  must(comm, comm->all_reduce(comm, fk_as_in(&view), &view, FK_SUM, stream));
}

template <class T>
T* buffer_of(const fk_symmetric* symmetric, int64_t rank) {
  return static_cast<T*>(symmetric->buffers[rank]);
}

// Base with one symmetric buffer per instance.
template <class Op>
struct Ranked : Base<Op> {
  using Base<Op>::Base;

 protected:
  const fk_comm* comm() const { return this->init.comm; }
  void barrier(const fk_ctx& ctx) const { must(comm(), comm()->barrier(comm(), ctx.stream)); }
  void make_buffer(int64_t bytes) { must(comm(), comm()->symmetric(comm(), bytes, &shared)); }
  const fk_symmetric* shared = nullptr;
};

// x @ weight^T, added up over the ranks in double; `Op` has x, weight and out.
template <class Op>
struct SummedProduct : Ranked<Op> {
  using Ranked<Op>::Ranked;
  struct Rows {
    double *x, *out;  // out: all rows
    Rows(Scratch& s, const typename Op::init& i, const typename Op::forward& args)
        : x(s.take(i.in_features)), out(s.take(args.x->shape[0] * i.out_features)) {}
  };
  static void supports(const typename Op::init& init, const typename Op::weights& weights,
                       const typename Op::forward& max, fk_need& need) {
    need_comm(init.comm);
    need_floats(weights.weight, max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  // The rows of out from `first` on.
  void product(const typename Op::forward& args, const fk_ctx& ctx, int64_t first) {
    Scratch scratch(ctx);
    const Rows rows(scratch, this->init, args);
    const int64_t count = args.x->shape[0], width = this->init.out_features;
    for (int64_t m = 0; m < count; ++m) {
      load(args.x, offset(args.x, m), this->init.in_features, rows.x);
      matrix_vector(this->weights.weight, 0, width, this->init.in_features, nullptr, rows.x,
                    rows.out + m * width);
    }
    sum_over_ranks(this->comm(), rows.out, count * width, ctx.stream);
    for (int64_t m = 0; m < args.out->shape[0]; ++m)
      store(args.out, offset(args.out, m), width, rows.out + (first + m) * width);
  }
};

// How experts are spread: rank r has those from r * local on.
struct ExpertRanks {
  int64_t ranks, rank, experts, local, top_k, most;
  template <class Init>
  explicit ExpertRanks(const Init& init)
      : ranks(init.comm->size),
        rank(init.comm->rank),
        experts(init.num_experts),
        local((init.num_experts + ranks - 1) / ranks),
        top_k(init.top_k),
        most(init.max_tokens_per_rank) {}
  // The local number of an expert, or -1.
  int64_t local_of(int32_t expert) const {
    const int64_t at = expert - rank * local;
    return expert >= 0 && at >= 0 && at < local ? at : -1;
  }
};

}  // namespace fk::reference
