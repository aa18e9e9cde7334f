// SPDX-License-Identifier: Apache-2.0
// The base of ops with a communicator (plugin_api/fk/comm.h), and their product summed over the
// ranks. In symmetric memory, which all ranks can address, ranks read and write each other's
// buffers between barriers. Between machines there is no such memory, so collectives copy the
// buffers.
#pragma once
#include <cstring>

#include "fk/comm_library.h"
#include "op.hpp"

namespace fk::reference {

// Refuses a case without a communicator.
inline void need_comm(const fk_comm* comm) {
  if (!comm) throw unsupported{"comm: a communicator is needed"};
}

// Throws the communicator's error text if a call has failed.
inline void must(const fk_comm* comm, int32_t status) {
  if (status != FK_OK) throw std::runtime_error(comm->error(comm));
}

// A view of `count` doubles, for the communicator's functions.
struct Doubles {
  const int64_t shape[1], strides[1] = {1};
  fk_out view{};
  Doubles(double* values, int64_t count) : shape{count} {
    view.data = values;
    view.device_type = FK_CPU;
    view.ndim = 1;
    view.dtype = {2, 64, 1};  // float64: DLPack code 2, 64 bits, 1 lane
    view.shape = shape;
    view.strides = strides;
    view.nbytes = count * 8;
  }
  Doubles(const Doubles&) = delete;
  const fk_in* in() const { return fk_as_in(&view); }
};

// Sums `count` doubles over the ranks, element by element, in the order of the ranks.
inline void sum_over_ranks(const fk_comm* comm, double* values, int64_t count, void* stream) {
  const Doubles all(values, count);
  must(comm, comm->all_reduce(comm, all.in(), &all.view, FK_SUM, stream));
}

// Base with one buffer per rank. There are two ways to use it. Every rank writes its own buffer,
// share() makes it visible, and all read it with shared_by(). Or every rank writes into the buffers
// of others with to(), and deliver() brings the data to mine(). done() ends both.
template <class Op>
struct Ranked : Base<Op> {
  using Base<Op>::Base;

 protected:
  const fk_comm* comm() const { return this->init.comm; }
  // Call it in supports(): asks for memory for a buffer of `bytes`.
  static void need_buffer(const fk_comm* comm, int64_t bytes, fk_need& need) {
    if (!fk_comm_has_symmetric(comm)) need.persistent = (comm->size + 1) * words_of(bytes) * 8;
  }
  // Call it in prepare(), with the same `bytes`.
  void make_buffer(int64_t bytes, const fk_memory& memory) {
    if (fk_comm_has_symmetric(comm()))
      return must(comm(), comm()->symmetric(comm(), bytes, &shared_));
    words_ = words_of(bytes);
    mine_ = static_cast<double*>(memory.persistent);
    images_ = mine_ + words_;
  }
  // This rank's buffer.
  template <class T>
  T* mine() {
    return static_cast<T*>(shared_ ? shared_->buffers[comm()->rank] : mine_);
  }
  // Call it when this rank has written the first `bytes` of mine(). All ranks call it with equal
  // bytes.
  void share(const fk_ctx& ctx, int64_t bytes) {
    if (shared_) return barrier(ctx);
    shared_words_ = words_of(bytes);
    const Doubles from(mine_, shared_words_);
    const Doubles to(images_, shared_words_ * comm()->size);
    must(comm(), comm()->all_gather(comm(), from.in(), &to.view, ctx.stream));
  }
  // The first bytes of that rank's buffer, after share().
  template <class T>
  const T* shared_by(int64_t rank) const {
    return static_cast<const T*>(shared_ ? shared_->buffers[rank] : images_ + rank * shared_words_);
  }
  // The place where this rank writes doubles for that rank. No two ranks may write the same
  // element.
  double* to(int64_t rank) {
    return shared_ ? static_cast<double*>(shared_->buffers[rank]) : images_ + rank * words_;
  }
  // Call it before the first to(). Between machines deliver() adds the ranks' images, so all
  // elements that a rank does not write must be 0.
  void before_writing() {
    if (!shared_) std::fill_n(images_, words_ * comm()->size, 0.0);
  }
  // Brings the elements that all ranks have written for this one to mine().
  void deliver(const fk_ctx& ctx) {
    if (shared_) return barrier(ctx);
    const Doubles from(images_, words_ * comm()->size), to(mine_, words_);
    must(comm(), comm()->reduce_scatter(comm(), from.in(), &to.view, FK_SUM, ctx.stream));
  }
  // No rank may write again before all have read.
  void done(const fk_ctx& ctx) const {
    if (shared_) barrier(ctx);
  }

 private:
  static int64_t words_of(int64_t bytes) { return (bytes + 7) / 8; }
  void barrier(const fk_ctx& ctx) const { must(comm(), comm()->barrier(comm(), ctx.stream)); }
  const fk_symmetric* shared_ = nullptr;  // null: between machines
  // sizes in doubles: of a buffer, and of the part that share() copied
  int64_t words_ = 0, shared_words_ = 0;
  // between machines: this rank's buffer, and one image of a buffer for each rank
  double *mine_ = nullptr, *images_ = nullptr;
};

// The base of ops that compute x @ weight^T, summed over the ranks in double. `Op` has x, weight
// and out.
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
  // Computes all rows of the sum, and stores those from `first` on, as many as out has.
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

// The experts of each rank: rank r has `local` of them, from r * local on.
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
  // The number of an expert among this rank's, or -1 if another rank has it.
  int64_t local_of(int32_t expert) const {
    const int64_t at = expert - rank * local;
    return expert >= 0 && at >= 0 && at < local ? at : -1;
  }
};

}  // namespace fk::reference
