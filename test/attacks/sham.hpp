// SPDX-License-Identifier: Apache-2.0
// The reference's ops of several ranks over a communicator that does not do what it says. So an
// attack leaves out the talking and nothing else:
//
//   #define FK_REFERENCE "baselines/reference/moe/moe_dispatch.cpp"
//   #include "../sham.hpp"
//   using Local = attack::Over<fk::reference::MoeDispatch, attack::Others::silent>;
//   FK_OP(moe_dispatch, Local);
#pragma once
#include <cstring>
#include <vector>

#include "fk/comm_library.h"
#include "fk/cpp/floats.hpp"
#include "reference.hpp"

namespace attack {

// The values that a rank takes for the others' part.
enum class Others {
  silent,     // nothing: zeros
  alike,      // what it has itself
  unawaited,  // what lies in their memory now, which may be of the call before
  first,      // their own, but it takes itself for the first of them
  apart,      // their own, by collectives alone: as between machines, which is honest
};

class Sham {
 public:
  Sham(const fk_comm* real, Others others) : view_(*real), others_(others) {
    if (others == Others::first) view_.rank = 0;
    if (others == Others::apart) view_.facts |= FK_COMM_APART;
    if (others == Others::first || others == Others::apart) return;
    view_.barrier = [](const fk_comm*, void*) -> int32_t { return FK_OK; };
    if (others == Others::unawaited) return;
    view_.self = this;
    view_.symmetric = [](const fk_comm* comm, int64_t bytes, const fk_symmetric** out) -> int32_t {
      return of(comm)->symmetric(bytes, out), FK_OK;
    };
    view_.all_gather = [](const fk_comm* comm, const fk_in* x, const fk_out* out, void*) {
      return of(comm)->repeat(static_cast<const char*>(x->data), x->nbytes, out);
    };
    view_.all_to_all = [](const fk_comm* comm, const fk_in* x, const fk_out* out, void*) {
      const int64_t part = x->nbytes / comm->size;
      return of(comm)->repeat(static_cast<const char*>(x->data) + comm->rank * part, part, out);
    };
    view_.all_reduce = [](const fk_comm* comm, const fk_in* x, const fk_out* out, int64_t op,
                          void*) { return of(comm)->reduce(x, 0, out, op); };
    view_.reduce_scatter = [](const fk_comm* comm, const fk_in* x, const fk_out* out, int64_t op,
                              void*) {
      return of(comm)->reduce(x, comm->rank * fk_numel(fk_as_in(out)), out, op);
    };
  }
  Sham(const Sham&) = delete;
  const fk_comm* comm() const { return &view_; }
  // Drops the rest of the last call.
  void forget() {
    std::fill(mine_.begin(), mine_.end(), 0);
    std::fill(theirs_.begin(), theirs_.end(), 0);
  }

 private:
  static Sham* of(const fk_comm* comm) { return static_cast<Sham*>(comm->self); }
  void symmetric(int64_t bytes, const fk_symmetric** out) {
    mine_.assign(static_cast<size_t>(bytes + 7) / 8, 0);
    if (others_ == Others::silent) theirs_ = mine_;
    buffers_.assign(static_cast<size_t>(view_.size),
                    others_ == Others::silent ? theirs_.data() : mine_.data());
    buffers_[static_cast<size_t>(view_.rank)] = mine_.data();
    peers_ = {FK_END(fk_symmetric, signals), view_.size, bytes, buffers_.data(), nullptr};
    *out = &peers_;
  }
  int32_t repeat(const char* part, int64_t bytes, const fk_out* out) const {
    for (int64_t r = 0; r < view_.size; ++r) {
      char* const to = static_cast<char*>(out->data) + r * bytes;
      if (r == view_.rank || others_ == Others::alike)
        std::memcpy(to, part, static_cast<size_t>(bytes));
      else
        std::memset(to, 0, static_cast<size_t>(bytes));
    }
    return FK_OK;
  }
  int32_t reduce(const fk_in* x, int64_t first, const fk_out* out, int64_t op) const {
    const int64_t count = fk_numel(fk_as_in(out));
    const int times = op == FK_SUM && others_ == Others::alike ? view_.size : 1;
    if (out->dtype.bits == 64) {  // as the reference sums up
      for (int64_t i = 0; i < count; ++i)
        fk::data<double>(out)[i] = times * fk::data<double>(x)[first + i];
      return FK_OK;
    }
    std::vector<float> sum(static_cast<size_t>(count));
    fk::load(x, first, count, sum.data());
    for (float& v : sum) v *= static_cast<float>(times);
    fk::store(out, 0, count, sum.data());
    return FK_OK;
  }
  fk_comm view_;
  const Others others_;
  std::vector<double> mine_, theirs_;
  std::vector<void*> buffers_;
  fk_symmetric peers_{};
};

template <class Op>
struct ShamInit {
  Sham sham;
  typename Op::init changed;
  ShamInit(const typename Op::init& i, Others others) : sham(i.comm, others), changed(i) {
    changed.comm = sham.comm();
  }
};

// `Real`, a class of the reference, over it.
template <class Real, Others kOthers>
struct Over : private ShamInit<typename Real::op>, Real {
  using op = typename Real::op;
  static void supports(const typename op::init& init, const typename op::weights& weights,
                       const typename op::forward& max, fk_need& need) {
    if (!init.comm) throw fk::unsupported{"there is one rank"};
    const ShamInit<op> own(init, kOthers);
    Real::supports(own.changed, weights, max, need);
  }
  Over(const fk_host& host, const typename op::init& init, const typename op::weights& weights)
      : ShamInit<op>(init, kOthers), Real(host, this->changed, weights) {}
  void forward(const typename op::forward& args, const fk_ctx& ctx) {
    this->sham.forget();
    Real::forward(args, ctx);
  }
};

}  // namespace attack
