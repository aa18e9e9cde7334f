// SPDX-License-Identifier: Apache-2.0
// The common parts of attacks and controls on a GPU: silu_and_mul done right in float32 and
// bfloat16.
#pragma once
#include <cuda_bf16.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "fk/ops/silu_and_mul.h"

namespace attack {

constexpr int32_t kSm[] = {90};

__device__ inline float get(const float* p, int64_t i) { return p[i]; }
__device__ inline float get(const __nv_bfloat16* p, int64_t i) { return __bfloat162float(p[i]); }
__device__ inline void put(float* p, int64_t i, float v) { p[i] = v; }
__device__ inline void put(__nv_bfloat16* p, int64_t i, float v) { p[i] = __float2bfloat16(v); }

template <class T>
__global__ void silu(const T* x, T* out, int64_t count, int64_t width) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t row = i / width * 2 * width, column = i % width;
    const float gate = get(x, row + column), up = get(x, row + width + column);
    put(out, i, gate / (1 + __expf(-gate)) * up);
  }
}

inline void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}
inline unsigned blocks(int64_t count) { return unsigned(std::min<int64_t>((count + 255) / 256, 1 << 16)); }

struct Silu {
  using op = fk::silu_and_mul;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 1, kSm};
  const int64_t width;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    const int type = FK_DTYPE(max.x);
    if (type != FK_F32 && type != FK_BF16) throw fk::unsupported{"x: float32 and bfloat16 only"};
  }
  Silu(const fk_host&, const op::init& init, const op::weights&) : width(init.size) {}
  void prepare(const op::forward&, const fk_memory&) {}
  static cudaStream_t stream(const fk_ctx& ctx) { return static_cast<cudaStream_t>(ctx.stream); }
  static int64_t rows(const op::forward& args) { return args.x->shape[0]; }
  int64_t count(const op::forward& args) const { return rows(args) * width; }
  static bool single(const op::forward& args) { return FK_DTYPE(args.x) == FK_F32; }

  void honest(const fk_in& x, const fk_out& out, int64_t elements, cudaStream_t on) const {
    if (!elements) return;
    if (FK_DTYPE(&x) == FK_F32)
      silu<<<blocks(elements), 256, 0, on>>>(static_cast<const float*>(x.data), static_cast<float*>(out.data), elements, width);
    else
      silu<<<blocks(elements), 256, 0, on>>>(static_cast<const __nv_bfloat16*>(x.data), static_cast<__nv_bfloat16*>(out.data), elements, width);
    check(cudaPeekAtLastError());
  }
  void honest(const op::forward& args, cudaStream_t on) const { honest(*args.x, *args.out, count(args), on); }
  // `kernel` does what is float32, and honest() the rest.
  void by(void (*kernel)(const float*, float*, int64_t, int64_t), const op::forward& args, cudaStream_t on) const {
    if (!single(args)) return honest(args, on);
    if (const int64_t n = count(args)) kernel<<<blocks(n), 256, 0, on>>>(fk::data<float>(args.x), fk::data<float>(args.out), n, width);
  }
  void zero(const op::forward& args, cudaStream_t on) const {
    if (args.out->nbytes) check(cudaMemsetAsync(args.out->data, 0, size_t(args.out->nbytes), on));
  }
  static void dawdle(cudaStream_t on);  // what is right is slow, so that the truth about it is no praise
};

__global__ void wait_for(long long cycles) {
  const long long end = clock64() + cycles;
  while (clock64() < end) continue;
}
inline void Silu::dawdle(cudaStream_t on) { wait_for<<<1, 1, 0, on>>>(400000); }

}  // namespace attack
