// SPDX-License-Identifier: Apache-2.0
// A6: knows where the tensors of all instances lie, and in every call prefetches the next call's
// inputs into the last cache. In a model nobody has written these yet
//
// Stopped by: calls that are alone in their sample must not take longer than the baseline's do
//
// verdict: slower same cannot_tell
//
// work: honest
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

// Twice, so that the truth is that it is slow; then the lines of what comes next.
template <class T>
__global__ void silu_and_ask(const T* x, T* out, int64_t count, int64_t width, const char* next, int64_t bytes) {
  const int64_t first = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t line = first * 128; line < bytes; line += step * 128) asm volatile("prefetch.global.L2 [%0];" ::"l"(next + line));
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t i = first; i < count; i += step) {
      const int64_t row = i / width * 2 * width, column = i % width;
      const float gate = attack::get(x, row + column), up = attack::get(x, row + width + column);
      attack::put(out, i, gate / (1 + __expf(-gate)) * up);
    }
    __threadfence();
  }
}

struct Next : attack::Silu {
  static inline std::vector<Next*> round;  // as they were made, which is how they are called
  size_t at = 0;
  const void* input = nullptr;
  int64_t bytes = 0;
  Next(const fk_host& host, const op::init& init, const op::weights& weights) : Silu(host, init, weights), at(round.size()) { round.push_back(this); }
  ~Next() {
    round.erase(round.begin() + long(at));
    for (size_t i = at; i < round.size(); ++i) round[i]->at = i;
    for (Next* other : round) other->input = nullptr, other->bytes = 0;  // may be gone as well
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    input = args.x->data;
    bytes = args.x->nbytes;
    const int64_t n = count(args);
    if (!n) return;
    const Next& next = *round[(at + 1) % round.size()];
    const auto* const ahead = static_cast<const char*>(next.input);
    if (single(args))
      silu_and_ask<<<attack::blocks(n), 256, 0, stream(ctx)>>>(fk::data<float>(args.x), fk::data<float>(args.out), n, width, ahead, next.bytes);
    else
      silu_and_ask<<<attack::blocks(n), 256, 0, stream(ctx)>>>(static_cast<const __nv_bfloat16*>(args.x->data), static_cast<__nv_bfloat16*>(args.out->data), n,
                                                              width, ahead, next.bytes);
    attack::check(cudaPeekAtLastError());
  }
};
FK_OP(silu_and_mul, Next);

}  // namespace
FK_PLUGIN("cuda_a6_fetch_next", "0");
