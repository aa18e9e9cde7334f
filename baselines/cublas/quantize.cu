// SPDX-License-Identifier: Apache-2.0
// A warp finds the scale of a group and rounds the group. The scale is the smallest power of two
// which brings the group into the range of f8e4m3.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "quantize.hpp"

namespace fkb {
namespace {

constexpr int kWarps = 8, kLane = int(kGroup) / 32;

__device__ float wide(float v) { return v; }
__device__ float wide(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ float wide(__half v) { return __half2float(v); }

template <class T>
__global__ void groups_of(const T* x, int64_t step, uint8_t* values, float* scales, int64_t rows, int64_t padded, int64_t columns, int64_t groups) {
  const int lane = int(threadIdx.x % 32);
  for (int64_t i = int64_t(blockIdx.x) * kWarps + threadIdx.x / 32; i < padded * groups; i += int64_t(gridDim.x) * kWarps) {
    const int64_t row = i / groups, group = i % groups;
    float v[kLane], top = 1e-10f;
    for (int j = 0; j < kLane; ++j) {
      const int64_t c = group * kGroup + j * 32 + lane;
      v[j] = row < rows && c < columns ? wide(x[row * step + c]) : 0.f;
      top = fmaxf(top, fabsf(v[j]));
    }
    for (int k = 16; k > 0; k >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, k));
    int exponent;
    const float fraction = frexpf(top, &exponent);  // top = fraction * 2^exponent; 448 = 0.875 * 2^9
    exponent += fraction > 0.875f ? -8 : -9;
    for (int j = 0; j < kLane; ++j) {
      const int64_t c = group * kGroup + j * 32 + lane;
      if (c < columns) values[row * columns + c] = __nv_cvt_float_to_fp8(ldexpf(v[j], -exponent), __NV_SATFINITE, __NV_E4M3);
    }
    if (lane == 0) scales[group * padded + row] = ldexpf(1.f, exponent);
  }
}
template <class T>
void start(const fk_in* x, const Quantized& to, cudaStream_t stream) {
  const int64_t blocks = (to.padded * to.groups() + kWarps - 1) / kWarps;
  groups_of<<<unsigned(std::min<int64_t>(blocks, 1 << 20)), kWarps * 32, 0, stream>>>(fk::data<T>(x), x->strides[0], to.values, to.scales, to.rows,
                                                                                    to.padded, to.columns, to.groups());
}

__global__ void repeat_each(const float* from, int64_t group, float* to, int64_t count) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i / group];
}
void check_launch(const char* what) {
  const cudaError_t status = cudaPeekAtLastError();
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

}  // namespace

void quantize(const fk_in* x, const Quantized& to, cudaStream_t stream) {
  switch (FK_DTYPE(x)) {
    case FK_F32: start<float>(x, to, stream); break;
    case FK_BF16: start<__nv_bfloat16>(x, to, stream); break;
    default: start<__half>(x, to, stream);
  }
  check_launch("quantize");
}
void repeat(const float* from, int64_t group, float* to, int64_t count, cudaStream_t stream) {
  constexpr int kThreads = 256;
  if (count) repeat_each<<<unsigned((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(from, group, to, count);
  check_launch("repeat");
}

}  // namespace fkb
