// fk-host: silu_and_mul, plugin template_opencl 0.1.0
// SPDX-License-Identifier: Apache-2.0
// silu_and_mul: out = silu(x[:, :F]) * x[:, F:]
// The contract as a page: fk-host show silu_and_mul
// launch silu_and_mul: T * F
__kernel void silu_and_mul(TENSOR(x), TENSOR(out), long F, long items) {
  const long i = get_global_id(0);
  if (i >= items) return;
  const long row = i / F * 2 * F, c = i % F;
  const float gate = GET(x, row + c), up = GET(x, row + F + c);
  PUT(out, i, gate / (1 + exp(-gate)) * up);
}
