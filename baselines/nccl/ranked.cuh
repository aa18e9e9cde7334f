// SPDX-License-Identifier: Apache-2.0
// Shared by ops with kernels of this provider: a communicator whose collectives are NCCL's, and
// children.
#pragma once
#include "../cuda/parts/op.cuh"
#include "fk/comm_library.h"

namespace fk::nccl {
using namespace fkc;

inline void need_nccl(const fk_comm* comm) {
  need(comm, "comm: a communicator is needed");
  need(fk_comm_library(comm) == FK_LIBRARY_NCCL, "comm: its collectives are not NCCL's, which is not here or not joined");
}
inline void must(const fk_comm* comm, int32_t status) {
  if (status != FK_OK) throw std::runtime_error(comm->error(comm));
}

// A child of the provider which the run has chosen for a lower op. `weights` stay in place, and are
// null if the op has none.
template <class Op> struct Child {
  const typename Op::init init;
  fk_child* made = nullptr;
  void prepare(const fk_host& host, const typename Op::weights* weights, const typename Op::forward& max) {
    fk_error error{FK_END(fk_error, text), 0, 0, 0, {}};
    if (host.child(&host, Op::contract(), &init, weights, &max, &made, &error) != FK_OK) throw std::runtime_error(error.text);
  }
  void forward(const fk_host& host, const typename Op::forward& frame, const fk_ctx& ctx) const {
    if (host.child_forward(made, &frame, &ctx) != FK_OK) throw std::runtime_error(std::string(Op::contract()->op) + " failed");
  }
};

// A dense view with the dtype and device of `like`.
struct View {
  fk_temp temp;
  View(const fk_in* like, void* data, int64_t rows, int64_t columns = 0) {
    const int64_t shape[] = {rows, columns};
    fk_temp_view(&temp, like, data, columns ? 2 : 1, shape);
  }
  View(const View&) = delete;
  const fk_in* in() const { return fk_as_in(&temp.view); }
  const fk_out* out() const { return &temp.view; }
};

}  // namespace fk::nccl
