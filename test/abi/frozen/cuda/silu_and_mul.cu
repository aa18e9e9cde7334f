// SPDX-License-Identifier: Apache-2.0
// The smallest plugin in CUDA: silu_and_mul in float32 and bfloat16.
//   nvcc -O3 -arch=sm_90a -shared -cudart shared -Xcompiler=-fPIC,-fvisibility=hidden,-fno-gnu-unique -I <include>
//        plugin.cu -o mine.so -Xlinker --version-script=<include>/fk/plugin.map
#include <cuda_bf16.h>

#include <stdexcept>

#include "fk/ops/silu_and_mul.h"

namespace {

constexpr int32_t kSm[] = {90};  // compute capabilities of the code in this file

__device__ float get(const float* p, int64_t i) { return p[i]; }
__device__ float get(const __nv_bfloat16* p, int64_t i) { return __bfloat162float(p[i]); }
__device__ void put(float* p, int64_t i, float v) { p[i] = v; }
__device__ void put(__nv_bfloat16* p, int64_t i, float v) { p[i] = __float2bfloat16(v); }

template <class T>
__global__ void silu_and_mul(const T* x, T* out, int64_t count, int64_t width) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / width * 2 * width, column = i % width;
  const float gate = get(x, row + column), up = get(x, row + width + column);
  put(out, i, gate / (1 + __expf(-gate)) * up);
}

struct SiluAndMul {
  using op = fk::silu_and_mul;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, /*deterministic=*/1, /*batch_invariant=*/1,
                                    FK_ACCUMULATE_F32, /*side_streams=*/0, /*sm_count=*/1, kSm};
  int64_t width;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    const int type = FK_DTYPE(max.x);
    if (type != FK_F32 && type != FK_BF16) throw fk::unsupported{"x: float32 and bfloat16 only"};
  }
  SiluAndMul(const fk_host&, const op::init& init, const op::weights&) : width(init.size) {}
  void prepare(const op::forward&, const fk_memory&) {}

  template <class T>
  void launch(const op::forward& args, const fk_ctx& ctx) {
    const int64_t count = args.out->shape[0] * width;
    if (count == 0) return;
    const auto blocks = unsigned((count + 255) / 256);
    silu_and_mul<<<blocks, 256, 0, static_cast<cudaStream_t>(ctx.stream)>>>(fk::data<T>(args.x), fk::data<T>(args.out), count, width);
    if (cudaPeekAtLastError() != cudaSuccess) throw std::runtime_error(cudaGetErrorString(cudaPeekAtLastError()));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    FK_DTYPE(args.x) == FK_F32 ? launch<float>(args, ctx) : launch<__nv_bfloat16>(args, ctx);
  }
};
FK_OP(silu_and_mul, SiluAndMul);

}  // namespace

FK_PLUGIN("frozen_cuda", "1.0.0");
