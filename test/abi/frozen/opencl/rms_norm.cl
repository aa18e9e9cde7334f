// fk-host: rms_norm, plugin frozen_opencl 1.0.0
// SPDX-License-Identifier: Apache-2.0
// rms_norm: out = x / sqrt(mean(x^2) + eps) * weight; with a residual, x + residual comes first and is written back
// The contract as a page: fk-host show rms_norm
// launch rms_norm: T * 64
// A group of 64 work items has a row.
__kernel void rms_norm(TENSOR(x), TENSOR(residual), TENSOR(weight), TENSOR(out), long C, float eps) {
  const long row = get_group_id(0) * C;
  const int me = get_local_id(0);
  __local float parts[64];
  float squares = 0;
  for (long c = me; c < C; c += 64) {
    float v = GET(x, row + c);
    if (HAS(residual)) {
      v += GET(residual, row + c);
      PUT(residual, row + c, v);
      v = GET(residual, row + c);  // what is normalised is what is written back
    }
    squares += v * v;
  }
  parts[me] = squares;
  for (int half_of = 32; half_of > 0; half_of /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < half_of) parts[me] += parts[me + half_of];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const float scale = 1 / sqrt(parts[0] / C + eps);
  for (long c = me; c < C; c += 64) {
    const float v = HAS(residual) ? GET(residual, row + c) : GET(x, row + c);
    PUT(out, row + c, v * scale * (HAS(weight) ? GET(weight, c) : 1.0f));
  }
}
