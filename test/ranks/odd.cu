// SPDX-License-Identifier: Apache-2.0
// odd.cpp on GPUs: candidates whose all_reduce goes wrong on the last rank. by_host: the others
// wait for it in the host's collective. by_peers: they wait in kernels of their own, over memory of
// all ranks, for words that it has to store there.
#include <signal.h>
#include <unistd.h>

#include <stdexcept>

#include "baselines/cuda/collective/ranks.cuh"
#include "fk/ops/all_reduce.h"

namespace {
using namespace fkc;

// dies: before its call. dies_late: when the others have been waiting for it on their devices for a while. hangs: on the host.
// stuck: its device has a kernel that does not end, and then the right call. traps: a fault of its device comes before that.
enum Mode { honest, dies, dies_late, hangs, stuck, disagrees, traps, leaves };
enum Way { by_host, by_peers };

constexpr unsigned kThreads = 256;

// By rank: who has sent in which call, who has read; and this rank's own count of calls.
struct Head {
  uint32_t sent[kMostRanks], read[kMostRanks], calls;
};
constexpr int64_t kHead = 256;
static_assert(sizeof(Head) <= kHead);

__device__ Head* head(const Ranks& ranks, int of) { return reinterpret_cast<Head*>(ranks.at[of]); }
__device__ float* numbers(const Ranks& ranks, int of) { return reinterpret_cast<float*>(ranks.at[of] + kHead); }

// One block. The kernel after it may not begin before all is done here.
__global__ void exchange(const float* x, float* out, int64_t count, const __grid_constant__ Ranks ranks, int op) {
  grid_dependency_wait();
  Head* const mine = head(ranks, ranks.rank);
  const uint32_t call = mine->calls + 1;
  const int r = int(threadIdx.x);
  for (int64_t i = r; i < count; i += kThreads) numbers(ranks, ranks.rank)[i] = x[i];
  __syncthreads();
  if (r < ranks.size) {
    store_release(&head(ranks, r)->sent[ranks.rank], call);
    wait_until(&mine->sent[r], call);
  }
  __syncthreads();
  for (int64_t i = r; i < count; i += kThreads) {
    float sum = numbers(ranks, 0)[i];
    for (int from = 1; from < ranks.size; ++from) sum = combine(sum, numbers(ranks, from)[i], op);
    out[i] = sum;
  }
  __syncthreads();
  if (r < ranks.size) {
    store_release(&head(ranks, r)->read[ranks.rank], call);
    wait_until(&mine->read[r], call);
  }
  __syncthreads();
  if (r == 0) mine->calls = call;
}

__global__ void never_end(const uint32_t* zero) {
  while (load_acquire(zero) == 0) let_others_run();
}
__global__ void stop() { __trap(); }

struct Odd : Base<fk::all_reduce> {
  using Base::Base;
  const fk_symmetric* memory = nullptr;
  Ranks ranks{};

  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_ranks(init.comm);
    need(FK_DTYPE(max.x) == FK_F32, "float32 only");
  }
  void prepare(const op::forward& max, const fk_memory&) {
    must(init.comm->symmetric(init.comm, kHead + max.x->nbytes, &memory));
    for (int r = 0; r < init.comm->size; ++r) ranks.at[r] = static_cast<char*>(memory->buffers[r]);
    ranks.rank = init.comm->rank;
    ranks.size = init.comm->size;
  }

  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (init.comm->rank == init.comm->size - 1 && !odd(ctx)) return;
    call(args, ctx);
    if (MODE == dies_late && init.comm->rank == init.comm->size - 1) die_late();
  }

 private:
  // Before its call. False: there is none.
  bool odd(const fk_ctx& ctx) const {
    switch (MODE) {
      case dies: ::raise(SIGKILL); return false;
      case dies_late:
        // The host's collective begins when all hosts are there, this one as well.
        if (WAY == by_peers) die_late();
        launch(never_end, 1, 1, 0, ctx, zero());
        return true;
      case hangs:
        for (;;) ::pause();
      case stuck: launch(never_end, 1, 1, 0, ctx, zero()); return true;
      case disagrees: must(init.comm->barrier(init.comm, ctx.stream)); return false;
      case traps: launch(stop, 1, 1, 0, ctx); return true;
      case leaves: return false;
      default: return true;
    }
  }
  static void die_late() {
    ::usleep(500'000);
    ::raise(SIGKILL);
  }
  void call(const op::forward& args, const fk_ctx& ctx) const {
    if (WAY == by_host) return must(init.comm->all_reduce(init.comm, args.x, args.out, init.reduction, ctx.stream));
    const int64_t count = fk_numel(args.x);
    if (count) launch(exchange, 1, kThreads, 0, ctx, fk::data<float>(args.x), fk::data<float>(args.out), count, ranks, int(init.reduction));
  }
  // A word of its own that nobody writes.
  const uint32_t* zero() const { return memory->signals[init.comm->rank]; }
  void must(int32_t status) const {
    if (status != FK_OK) throw std::runtime_error(init.comm->error(init.comm));
  }
};
FK_OP(all_reduce, Odd);

}  // namespace

#ifdef ODD_NAME  // compiled for the CPU it has another (test/cuda_emulation)
FK_PLUGIN(ODD_NAME, "1");
#endif
