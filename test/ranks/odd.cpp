// SPDX-License-Identifier: Apache-2.0
// Candidates whose all_reduce goes wrong on one rank, or does without the other ranks.
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "fk/cpp/plugin.hpp"
#include "fk/ops/all_reduce.h"

namespace {

enum Mode { honest, dies, hangs, disagrees, alone, first_only, leaves };

struct Odd {
  using op = fk::all_reduce;
  static constexpr fk_claims claims = fk::cpu_claims;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (!init.comm || FK_DTYPE(max.x) != FK_F32) throw fk::unsupported{"x: float32 only"};
  }
  Odd(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx& ctx) {
    const fk_comm* comm = init.comm;
    const bool odd = comm->rank == comm->size - 1;
    if (MODE == dies && odd) ::raise(SIGKILL);
    if (MODE == hangs && odd)
      for (;;) ::pause();
    if (MODE == leaves && odd) return;
    if (MODE == alone) return times_size(args);
    int32_t status = FK_OK;
    if (MODE == disagrees && odd)
      status = comm->barrier(comm, ctx.stream);
    else
      status = comm->all_reduce(comm, args.x, args.out, init.reduction, ctx.stream);
    if (status != FK_OK) throw std::runtime_error(comm->error(comm));
    if (MODE == first_only && comm->rank != 0)
      std::memcpy(args.out->data, args.x->data, static_cast<size_t>(args.x->nbytes));
  }

 private:
  // Passes if all ranks are given the same.
  void times_size(const op::forward& args) const {
    const auto* x = fk::data<float>(args.x);
    auto* out = fk::data<float>(args.out);
    for (int64_t i = 0; i < fk_numel(args.x); ++i)
      out[i] = x[i] * static_cast<float>(init.reduction == FK_SUM ? init.comm->size : 1);
  }
  const op::init& init;
};
FK_OP(all_reduce, Odd);

}  // namespace

#define FK_TEXT_OF(x) #x
#define FK_TEXT(x) FK_TEXT_OF(x)
FK_PLUGIN("odd_" FK_TEXT(MODE), "1");
