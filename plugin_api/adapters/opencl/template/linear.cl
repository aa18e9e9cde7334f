// fk-host: linear, plugin template_opencl 0.1.0
// SPDX-License-Identifier: Apache-2.0
// linear: out = x @ weight^T + bias
// The contract as a page: fk-host show linear
// launch linear: M * N
__kernel void linear(TENSOR(x), TENSOR(weight), TENSOR(bias), TENSOR(out), long N, long K, long x_stride_0,
                     long items) {
  const long i = get_global_id(0);
  if (i >= items) return;
  const long row = i / N, n = i % N;
  float sum = HAS(bias) ? GET(bias, n) : 0.0f;
  for (long k = 0; k < K; ++k) sum += (float)GET(x, row * x_stride_0 + k) * (float)GET(weight, n * K + k);
  PUT(out, i, sum);
}
