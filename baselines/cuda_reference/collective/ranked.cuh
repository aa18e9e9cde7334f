// SPDX-License-Identifier: Apache-2.0
// Shared by ops with a communicator. A rank puts its data for others into a symmetric buffer
// between two barriers, as double or as it came. Ops use buffers and barriers of the communicator
// only, except between machines (Carried).
#pragma once
#include "fk/comm_library.h"
#include "../common.cuh"

namespace fkr {

inline constexpr int kRanksMax = 64;

// A buffer of each rank, as kernels see them.
struct Buffers {
  char* at[kRanksMax];
  int rank, size;
  // As doubles from a byte on.
  __device__ double* doubles(int64_t of, int64_t from = 0) const { return reinterpret_cast<double*>(at[of] + from); }
};
// The same as a dense view of doubles.
inline Ref doubles(const Buffers& buffers, int of, int64_t from = 0) {
  Ref r{};
  r.data = buffers.at[of] + from;
  r.dtype = FK_F64;
  return r;
}

template <class Op> struct Ranked : Plain<Op> {
  using Plain<Op>::Plain;
  static void supports(const typename Op::init& init, const typename Op::weights&, const typename Op::forward&, fk_need&) {
    need_comm(init.comm);
    if (!fk_comm_has_symmetric(init.comm)) throw fk::unsupported{"comm: ranks on one machine only, which share memory"};
  }
  static void need_comm(const fk_comm* comm) {
    if (!comm) throw fk::unsupported{"comm: a communicator is needed"};
    if (comm->size > kRanksMax) throw fk::unsupported{"up to 64 ranks only"};
  }

  // Copies `count` elements of a dense view into this rank's buffer, as double.
  void lay_down(const Ref& x, int64_t count, const fk_ctx& ctx) const {
    double* mine = reinterpret_cast<double*>(buffers.at[buffers.rank]);
    for_each(count, ctx, [=] __device__(int64_t i) { mine[i] = load(x, i); });
  }

 protected:
  const fk_comm* comm() const { return this->init.comm; }
  void must(int32_t status) const {
    if (status != FK_OK) throw std::runtime_error(comm()->error(comm()));
  }
  void barrier(const fk_ctx& ctx) const { must(comm()->barrier(comm(), ctx.stream)); }
  // From prepare().
  void make_buffers(int64_t bytes) {
    const fk_symmetric* made = nullptr;
    must(comm()->symmetric(comm(), bytes, &made));
    buffers.rank = comm()->rank;
    buffers.size = comm()->size;
    for (int r = 0; r < buffers.size; ++r) buffers.at[r] = static_cast<char*>(made->buffers[r]);
  }
  Buffers buffers{};
};

inline int64_t whole(int64_t bytes) { return (bytes + 255) / 256 * 256; }

inline void copy_bytes(char* to, const void* from, int64_t bytes, const fk_ctx& ctx) {
  const char* source = static_cast<const char*>(from);
  for_each(bytes, ctx, [=] __device__(int64_t i) { to[i] = source[i]; });
}

// The same between machines, where no other provider has such an op. A rank has images of all
// buffers, and collectives carry the data written to them.
template <class Op> struct Carried : Ranked<Op> {
  using Ranked<Op>::Ranked;
  // For supports(): the size of a buffer; and for prepare().
  static void need_buffers(const fk_comm* comm, int64_t bytes, fk_need& need) {
    Ranked<Op>::need_comm(comm);
    if (!fk_comm_has_symmetric(comm)) need.persistent = (comm->size + 1) * whole(bytes);
  }
  void make_buffers(int64_t bytes, const fk_memory& memory) {
    if (fk_comm_has_symmetric(this->comm())) return Ranked<Op>::make_buffers(bytes);
    bytes_ = whole(bytes);
    mine_ = static_cast<char*>(memory.persistent);
    this->buffers.rank = this->comm()->rank;
    this->buffers.size = this->comm()->size;
    for (int r = 0; r < this->buffers.size; ++r) this->buffers.at[r] = mine_ + (r + 1) * bytes_;
  }
  // deliver() adds to zeros.
  void before_writing(const fk_ctx& ctx) const {
    if (!mine_) return;
    char* images = this->buffers.at[0];
    for_each(bytes_ * this->buffers.size, ctx, [=] __device__(int64_t i) { images[i] = 0; });
  }

 protected:
  // Copies each rank's own buffer to all ranks' images of it.
  void share(const fk_in* like, const fk_ctx& ctx) const {
    if (!mine_) return this->barrier(ctx);
    copy_bytes(mine_, own(), bytes_, ctx);
    const View from(like, mine_, bytes_), to(like, this->buffers.at[0], bytes_ * this->buffers.size);
    this->must(this->comm()->all_gather(this->comm(), fk_as_in(&from.temp.view), &to.temp.view, ctx.stream));
  }
  // Delivers the data which ranks have written to any buffer, each to other elements of `like`'s
  // dtype.
  void deliver(const fk_in* like, const fk_ctx& ctx) const {
    if (!mine_) return this->barrier(ctx);
    const View from(like, this->buffers.at[0], bytes_ * this->buffers.size), to(like, mine_, bytes_);
    this->must(this->comm()->reduce_scatter(this->comm(), fk_as_in(&from.temp.view), &to.temp.view, FK_SUM, ctx.stream));
    copy_bytes(own(), mine_, bytes_, ctx);
  }
  // No rank writes before all ranks have read.
  void done(const fk_ctx& ctx) const {
    if (!mine_) this->barrier(ctx);
  }

 private:
  struct View {
    fk_temp temp;
    View(const fk_in* like, char* data, int64_t bytes) {
      const int64_t count = bytes / (like->dtype.bits / 8);
      fk_temp_view(&temp, like, data, 1, &count);
    }
    View(const View&) = delete;
  };
  char* own() const { return this->buffers.at[this->buffers.rank]; }
  char* mine_ = nullptr;  // null: on one machine
  int64_t bytes_ = 0;
};

// The reduction of element i of all ranks' doubles, in the order of ranks.
__device__ inline double reduced(const Buffers& buffers, int64_t i, int64_t op) {
  double all = buffers.doubles(0)[i];
  for (int r = 1; r < buffers.size; ++r) {
    const double next = buffers.doubles(r)[i];
    all = op == FK_SUM ? all + next : op == FK_MAX ? fmax(all, next) : fmin(all, next);
  }
  return all;
}

}  // namespace fkr
