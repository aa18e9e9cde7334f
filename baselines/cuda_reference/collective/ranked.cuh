// SPDX-License-Identifier: Apache-2.0
// What ops with a communicator share here: what a rank has for others lies in a symmetric buffer between two barriers, in double
// or as it came. Nothing but buffers and barriers of the communicator is used.
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
    if (!init.comm) throw fk::unsupported{"comm: a communicator is needed"};
    if (!fk_comm_has_symmetric(init.comm)) throw fk::unsupported{"comm: ranks on one machine only, which share memory"};
    if (init.comm->size > kRanksMax) throw fk::unsupported{"up to 64 ranks only"};
  }

  // `count` elements of a dense view into this rank's buffer, in double.
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

inline void copy_bytes(char* to, const void* from, int64_t bytes, const fk_ctx& ctx) {
  const char* source = static_cast<const char*>(from);
  for_each(bytes, ctx, [=] __device__(int64_t i) { to[i] = source[i]; });
}

// The reduction of element i of all ranks' doubles, in their order.
__device__ inline double reduced(const Buffers& buffers, int64_t i, int64_t op) {
  double all = buffers.doubles(0)[i];
  for (int r = 1; r < buffers.size; ++r) {
    const double next = buffers.doubles(r)[i];
    all = op == FK_SUM ? all + next : op == FK_MAX ? fmax(all, next) : fmin(all, next);
  }
  return all;
}

}  // namespace fkr
