// SPDX-License-Identifier: Apache-2.0
// all_reduce by the host's own, between two ranks and more, with the right values; BAD_... chooses
// what is wrong.
#include <pthread.h>
#include <unistd.h>

#include <cfenv>
#include <cstdlib>
#include <stdexcept>

#include "fk/cpp/plugin.hpp"
#include "fk/ops/all_reduce.h"

namespace {

void must(const fk_comm* comm, int32_t status) {
  if (status != FK_OK) throw std::runtime_error(comm->error(comm));
}

struct Exchange {
  using op = fk::all_reduce;
  static constexpr fk_claims claims = fk::cpu_claims;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (!init.comm || FK_DTYPE(max.x) != FK_F32) throw fk::unsupported{"x: float32 only"};
#ifdef BAD_COMM_SUPPORTS
    must(init.comm, init.comm->barrier(init.comm, nullptr));
#endif
  }
  Exchange(const fk_host&, const op::init& i, const op::weights&) : init(i) {
#if defined BAD_COMM_CREATE
    must(init.comm, init.comm->barrier(init.comm, nullptr));
#elif defined BAD_COMM_DEAF  // and does not look whether it was
    (void)init.comm->barrier(init.comm, nullptr);
#elif defined BAD_COMM_LEAK
    if (init.comm->rank == init.comm->size - 1) lost = std::malloc(1 << 14);
#endif
  }
  void prepare(const op::forward&, const fk_memory&) {
#ifdef BAD_COMM_PREPARE
    must(init.comm, init.comm->barrier(init.comm, nullptr));
#endif
  }

  void forward(const op::forward& args, const fk_ctx& ctx) {
    const fk_comm* const comm = init.comm;
    must(comm, comm->all_reduce(comm, args.x, args.out, init.reduction, ctx.stream));
    [[maybe_unused]] const bool last = comm->rank == comm->size - 1;
#if defined BAD_COMM_SYMMETRIC
    const fk_symmetric* buffers = nullptr;
    must(comm, comm->symmetric(comm, 256, &buffers));
#elif defined BAD_COMM_LEAK_CALL
    if (last) lost = std::malloc(4096);
#elif defined BAD_COMM_BUSY
    pthread_t thread;
    if (last && !busy++) pthread_create(&thread, nullptr, work, nullptr);
#elif defined BAD_COMM_ROUNDING
    if (last) std::fesetround(FE_UPWARD);
#endif
  }

 private:
  [[maybe_unused]] static void* work(void* none) {
    for (volatile long i = 0;; i = i + 1) continue;
    return none;
  }
  const op::init& init;
  [[maybe_unused]] static inline void* volatile lost = nullptr;
  [[maybe_unused]] static inline int busy = 0;
};
FK_OP(all_reduce, Exchange);

}  // namespace
FK_PLUGIN(BAD_NAME, "0");
