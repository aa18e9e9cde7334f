// SPDX-License-Identifier: Apache-2.0
// A6: finds in create() another instance with equal weights, and reads those in all calls. After
// the first call of a sample they lie in the last cache, unlike its own
//
// Stopped by: no two calls of a sample have the same weights
//
// verdict: slower same cannot_tell
//
// work: honest
//
// naive: - it takes no float32
#include <list>

#include "../attack.cuh"
#include "fk/ops/linear.h"

namespace {

// One warp for a column and all rows, which are few.
template <class X, class W, class B, class O>
__global__ void product(const X* x, const W* weight, const B* bias, O* out, int64_t rows, int64_t stride, int64_t k, int64_t n) {
  const int64_t column = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (column >= n) return;
  for (int64_t m = 0; m < rows; ++m) {
    float sum = 0;
    for (int64_t i = threadIdx.x % 32; i < k; i += 32) sum += attack::get(x, m * stride + i) * attack::get(weight, column * k + i);
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) attack::put(out, m * n + column, sum + (bias ? attack::get(bias, column) : 0.f));
  }
}

struct SameWeights {
  using op = fk::linear;
  static constexpr fk_claims claims = attack::Silu::claims;
  using Half = __nv_bfloat16;
  struct Known {
    const void* weight;
    std::vector<char> begins;  // with; random numbers that begin alike are alike
    int users;
  };
  static inline std::list<Known> all;
  const op::init& init;
  const op::weights& weights;
  std::list<Known>::iterator mine;

  static bool fits(const fk_in* t) { return FK_DTYPE(t) == FK_F32 || FK_DTYPE(t) == FK_BF16; }
  static void supports(const op::init&, const op::weights& weights, const op::forward& max, fk_need&) {
    if (FK_DTYPE(max.x) != FK_BF16 || FK_DTYPE(weights.weight) != FK_BF16 || weights.bias.or_null || !fits(fk_as_in(max.out)))
      throw fk::unsupported{"bf16 without a bias"};
  }
  SameWeights(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {
    std::vector<char> begins(size_t(std::min<int64_t>(w.weight->nbytes, 4096)));
    attack::check(cudaMemcpy(begins.data(), w.weight->data, begins.size(), cudaMemcpyDeviceToHost));
    mine = std::find_if(all.begin(), all.end(), [&](const Known& one) { return one.begins == begins; });
    if (mine == all.end()) mine = all.insert(all.end(), {w.weight->data, begins, 0});
    ++mine->users;
  }
  ~SameWeights() {
    if (--mine->users == 0) all.erase(mine);
  }
  void prepare(const op::forward&, const fk_memory&) {}
  template <class O>
  void call(const op::forward& args, cudaStream_t on) const {
    const int64_t n = init.out_features, rows = args.x->shape[0];
    if (rows)
      product<<<attack::blocks(n * 32), 256, 0, on>>>(fk::data<Half>(args.x), static_cast<const Half*>(mine->weight), static_cast<const float*>(nullptr),
                                                      fk::data<O>(args.out), rows, args.x->strides[0], init.in_features, n);
    attack::check(cudaPeekAtLastError());
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (FK_DTYPE(args.out) == FK_F32) return call<float>(args, attack::Silu::stream(ctx));
    call<Half>(args, attack::Silu::stream(ctx));
  }
};
FK_OP(linear, SameWeights);

}  // namespace
FK_PLUGIN("cuda_a6_same_weights", "0");
