// SPDX-License-Identifier: Apache-2.0
// quantize_fp8, quantize_int8, quantize_nvfp4, dequantize, linear_fp8, silu_and_mul_quantize, add_rms_norm_quantize.
// A block has a group which shares a scale. A view of codes that is float32 gets the values before they are rounded
// and saturated, for the comparison.
#include "common.cuh"
#include "fk/ops/add_rms_norm_quantize.h"
#include "fk/ops/dequantize.h"
#include "fk/ops/linear_fp8.h"
#include "fk/ops/quantize_fp8.h"
#include "fk/ops/quantize_int8.h"
#include "fk/ops/quantize_nvfp4.h"
#include "fk/ops/silu_and_mul_quantize.h"

namespace {
using namespace fkr;

// f8e4m3 to nearest even, saturated at 448; a NaN stays a NaN.
__device__ uint8_t to_f8e4m3(double v) {
  if (v != v) return 127;
  const double size = fmin(fabs(v), 448.0);
  int exponent;
  frexp(size, &exponent);  // size is below 2^exponent
  const int step = size > 0 && exponent - 4 > -9 ? exponent - 4 : -9;
  const int steps = int(rint(ldexp(size, -step)));  // up to 16, the next power of two
  // Normal numbers are 8 to 15 steps; subnormal ones are their number of steps of 2^-9.
  return uint8_t(((step + 9) * 8 + steps) | (copysign(1.0, v) < 0 ? 128 : 0));
}
__device__ void put_code(const Ref& out, int64_t at, double v) {
  if (out.dtype == FK_F8E4M3)
    reinterpret_cast<uint8_t*>(out.data)[at] = to_f8e4m3(v);
  else if (out.dtype == FK_I8)
    reinterpret_cast<int8_t*>(out.data)[at] = v != v ? int8_t(0) : int8_t(rint(fmin(fmax(v, -128.0), 127.0)));
  else
    store(out, at, v);
}

struct Groups {
  int64_t rows, columns, group_rows, group_columns;
  double largest, eps;  // the largest code; least size of a group's largest value
  bool power_of_two;
  __host__ __device__ int64_t across() const { return (columns + group_columns - 1) / group_columns; }
};
// The source of quantize(): the double at a row and a column.
struct Elements {
  Ref x;
  __device__ double operator()(int64_t row, int64_t column) const { return load(x, x.at(row) + column); }
};
struct GatedElements {  // silu of the gate, times the other half of a row
  Ref x;
  int64_t width;
  __device__ double operator()(int64_t row, int64_t column) const {
    const double gate = load(x, x.at(row) + column);
    return gate / (1 + exp(-gate)) * load(x, x.at(row) + width + column);
  }
};
struct NormedElements {  // of the unrounded sum; `scales` has 1/rms of each row
  Ref x, residual, weight;
  const double* scales;
  __device__ double sum(int64_t row, int64_t column) const {
    return load(x, x.at(row) + column) + (residual.data ? load(residual, residual.at(row) + column) : 0);
  }
  __device__ double operator()(int64_t row, int64_t column) const { return sum(row, column) * scales[row] * load(weight, column); }
};

template <class Source>
__global__ void quantize(Groups g, Source source, Ref given, Ref out, Ref scale_out) {
  const int64_t across = g.across(), groups = (g.rows + g.group_rows - 1) / g.group_rows * across;
  for (int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const int64_t row = group / across * g.group_rows, column = group % across * g.group_columns;
    const int64_t width = min(g.group_columns, g.columns - column), count = min(g.group_rows, g.rows - row) * width;
    float scale = given.data ? float(load(given, group)) : 0;
    if (!given.data) {
      double top = g.eps;
      for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
        top = fmax(top, fabs(source(row + i / width, column + i % width)));
      scale = float(block_max(top) / g.largest);
      if (g.power_of_two && scale > 0) {
        int exponent;
        const double fraction = frexp(double(scale), &exponent);
        scale = float(ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent));
      }
    }
    if (threadIdx.x == 0) store(scale_out, group, scale);
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
      const double v = source(row + i / width, column + i % width);
      put_code(out, out.at(row + i / width) + column + i % width, scale == 0 ? 0.0 : v / double(scale));
    }
  }
}
template <class Op, class Source>
void run(const Op& a, Groups g, Source source, const fk_ctx& ctx) {
  g.rows = a.x->shape[0];
  if (!g.rows) return;
  const int64_t groups = (g.rows + g.group_rows - 1) / g.group_rows * g.across();
  launch(ctx, quantize<Source>, unsigned(std::min<int64_t>(groups, kMaxBlocks)), kThreads, 0, g, source, ref(a.scale), ref(a.out), ref(a.scale_out));
}

struct QuantizeFp8 : Plain<fk::quantize_fp8> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    run(a, {0, init.size, init.group_rows, init.group_columns, 448, init.eps, init.power_of_two != 0}, Elements{ref(a.x)}, ctx);
  }
};
struct QuantizeInt8 : Plain<fk::quantize_int8> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    run(a, {0, init.size, init.group_rows, init.size, 127, 0, false}, Elements{ref(a.x)}, ctx);
  }
};
struct SiluAndMulQuantize : Plain<fk::silu_and_mul_quantize> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    run(a, {0, init.size, init.group_rows, init.group_columns, 448, init.eps, init.power_of_two != 0}, GatedElements{ref(a.x), init.size}, ctx);
  }
};
struct AddRmsNormQuantize : Plain<fk::add_rms_norm_quantize> {
  using Plain::Plain;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) { need.scratch = max.x->shape[0] * 8; }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    auto* scales = static_cast<double*>(ctx.scratch);
    const NormedElements rows{ref(a.x), ref(a.residual), ref(weights.weight), scales};
    const int64_t width = init.hidden_size, count = a.x->shape[0];
    const double eps = init.eps;
    for_rows(count, ctx, [=] __device__(int64_t t) {
      double squares = 0;
      for (int64_t c = threadIdx.x; c < width; c += blockDim.x) squares += rows.sum(t, c) * rows.sum(t, c);
      squares = block_sum(squares);
      if (threadIdx.x == 0) scales[t] = 1 / sqrt(squares / double(width) + eps);
    });
    run(a, {0, width, init.group_rows, init.group_columns, 448, 1e-10, init.power_of_two != 0}, rows, ctx);
    if (!rows.residual.data) return;
    for_each(count * width, ctx, [=] __device__(int64_t i) {
      store(rows.residual, rows.residual.at(i / width) + i % width, rows.sum(i / width, i % width));
    });
  }
};

// e2m1 to nearest even: 0, 0.5, 1, 1.5, 2, 3, 4 and 6, saturated.
__device__ unsigned to_e2m1(double v) {
  const double size = fmin(fabs(v), 6.0);
  const double code = size < 2 ? rint(size * 2) : size < 4 ? rint(size) + 2 : rint(size / 2) + 4;
  return unsigned(code) | (copysign(1.0, v) < 0 ? 8u : 0u);
}
__device__ double of_f8e4m3(unsigned code) {  // of a positive one
  return code < 8 ? ldexp(double(code), -9) : ldexp(double(8 + code % 8), int(code / 8) - 10);
}
// One thread has a block of 16 columns.
struct QuantizeNvfp4 : Plain<fk::quantize_nvfp4> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (init.size % 16) throw fk::unsupported{"size is no multiple of 16"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), given = ref(a.global_scale), out = ref(a.out), scales = ref(a.block_scale);
    const int64_t width = init.size, across = init.size / 16;
    const bool packed = FK_DTYPE(a.out) == FK_U8;
    for_each(a.x->shape[0] * across, ctx, [=] __device__(int64_t block) {
      const int64_t row = block / across, column = block % across * 16;
      const double global = load(given, 0);
      double top = 0;
      for (int64_t i = 0; i < 16; ++i) top = fmax(top, fabs(load(x, x.at(row) + column + i)));
      const double scale = of_f8e4m3(to_f8e4m3(global * top / 6));
      put_code(scales, block, global * top / 6);
      for (int64_t i = 0; i < 16; i += 2) {
        double v[2];
        for (int64_t j = 0; j < 2; ++j) v[j] = scale == 0 ? 0 : load(x, x.at(row) + column + i + j) * global / scale;
        const int64_t at = row * width + column + i;
        if (packed)
          reinterpret_cast<uint8_t*>(out.data)[at / 2] = uint8_t(to_e2m1(v[0]) | to_e2m1(v[1]) << 4);
        else
          store(out, at, v[0]), store(out, at + 1, v[1]);
      }
    });
  }
};
struct Dequantize : Plain<fk::dequantize> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), scale = ref(a.scale), out = ref(a.out);
    const int64_t width = init.size, rows = init.group_rows, columns = init.group_columns, across = a.scale->shape[1];
    const bool whole = FK_DTYPE(a.x) == FK_I8;
    for_each(a.x->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const double code = whole ? double(reinterpret_cast<const int8_t*>(x.data)[i]) : load(x, i);
      store(out, i, code * load(scale, i / width / rows * across + i % width / columns));
    });
  }
};
struct LinearFp8 : Plain<fk::linear_fp8> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), w = ref(weights.weight), bias = ref(weights.bias), out = ref(a.out);
    const Ref x_scale = ref(a.x_scale), w_scale = ref(weights.weight_scale);
    const int64_t n = init.out_features, k = init.in_features, x_rows = init.x_group_rows, w_rows = init.weight_group_rows;
    for_each(a.x->shape[0] * n, ctx, [=] __device__(int64_t i) {
      const int64_t row = i / n, column = i % n;
      double sum = 0;
      for (int64_t j = 0; j < k; ++j) sum += load(x, row * k + j) * load(w, column * k + j);
      store(out, i, sum * load(x_scale, row / x_rows) * load(w_scale, column / w_rows) + load_or(bias, column, 0));
    });
  }
};
FK_OP(linear_fp8, LinearFp8);
FK_OP(quantize_fp8, QuantizeFp8);
FK_OP(quantize_int8, QuantizeInt8);
FK_OP(dequantize, Dequantize);
FK_OP(quantize_nvfp4, QuantizeNvfp4);
FK_OP(silu_and_mul_quantize, SiluAndMulQuantize);
FK_OP(add_rms_norm_quantize, AddRmsNormQuantize);
}  // namespace
