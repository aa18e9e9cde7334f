// SPDX-License-Identifier: Apache-2.0
// conv_transpose2d: each pixel of the result is a sum over the taps which fall on it, for vectors
// of its channels. The weight is repacked to float32, with the channels of the result last.
#include "simd.hpp"

namespace fk::cpu {
// Arrays of two are rows, columns.
struct ConvTranspose {
  const void *x, *bias;  // bias: null if absent
  void* out;
  const float* weight;  // [groups, taps, C/groups, O/groups]
  int64_t in[2], size[2], kernel[2], stride[2], padding[2], dilation[2];
  int64_t channels, outputs, groups;
  int type, bias_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(conv_transpose_pixels, const ConvTranspose&, int64_t begin, int64_t end, float* row)

namespace fk::cpu::FK_CPU_LEVEL {

// row += the product of the channels of a pixel with a tap's weights [C/groups, O/groups], for each
// group.
template <class T>
FK_INLINE void add_tap(const ConvTranspose& a, const T* x, int64_t tap, float* row) {
  const int64_t c = a.channels / a.groups, o = a.outputs / a.groups;
  const int64_t taps = a.kernel[0] * a.kernel[1];
  for (int64_t g = 0; g < a.groups; ++g) {
    const float* weight = a.weight + (g * taps + tap) * c * o;
    each_vector(o, [&](int64_t i, auto n) {
      Vf sum = load(row + g * o + i, n);
      for (int64_t k = 0; k < c; ++k) sum += load(weight + k * o + i, n) * to_float(x[g * c + k]);
      store(row + g * o + i, sum, n);
    });
  }
}

// Pixels [begin, end) of all images. `row` has room for the channels of the result.
void conv_transpose_pixels(const ConvTranspose& a, int64_t begin, int64_t end, float* row) {
  with_type(a.type, [&]<class T>() {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t ox = p % a.size[1], oy = p / a.size[1] % a.size[0];
      const int64_t image = p / a.size[1] / a.size[0];
      with_type(a.bias_type, [&]<class B>() {
        const B* bias = static_cast<const B*>(a.bias);
        each_vector(a.outputs,
                    [&](int64_t i, auto n) { store(row + i, bias ? load(bias + i, n) : Vf{}, n); });
      });
      for (int64_t tap = 0; tap < a.kernel[0] * a.kernel[1]; ++tap) {
        const int64_t y = oy + a.padding[0] - tap / a.kernel[1] * a.dilation[0];
        const int64_t x = ox + a.padding[1] - tap % a.kernel[1] * a.dilation[1];
        if (y < 0 || x < 0 || y % a.stride[0] || x % a.stride[1]) continue;
        const int64_t iy = y / a.stride[0], ix = x / a.stride[1];
        if (iy >= a.in[0] || ix >= a.in[1]) continue;
        const int64_t pixel = (image * a.in[0] + iy) * a.in[1] + ix;
        add_tap(a, static_cast<const T*>(a.x) + pixel * a.channels, tap, row);
      }
      T* out = static_cast<T*>(a.out) + p * a.outputs;
      each_vector(a.outputs, [&](int64_t i, auto n) { store(out + i, load(row + i, n), n); });
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/conv_transpose2d.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct ConvTranspose2dOp {
  using op = fk::conv_transpose2d;
  static constexpr fk_claims claims = cpu_claims;

  static int64_t taps(const op::init& i) { return i.kernel_size->at[0] * i.kernel_size->at[1]; }
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
    need_float(weights.weight, "weight: f32, bf16 or f16");
    if (weights.bias.or_null) need_float(weights.bias.or_null, "bias: f32, bf16 or f16");
    if (init.in_channels % init.groups || init.out_channels % init.groups)
      throw unsupported{"groups: does not divide the channels"};
    need.packed = init.in_channels * (init.out_channels / init.groups) * taps(init) * 4;
    need.scratch = threads_max() * padded(init.out_channels) * 4;
  }
  ConvTranspose2dOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory& memory) {
    packed_ = static_cast<float*>(memory.packed);
    if (!memory.packed_ready) pack();
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    ConvTranspose a{};
    a.x = args.x->data;
    a.bias = data<void>(weights_.bias);
    a.out = args.out->data;
    a.weight = packed_;
    for (int d = 0; d < 2; ++d) {
      a.in[d] = args.x->shape[d + 1];
      a.size[d] = args.out->shape[d + 1];
      a.kernel[d] = init_.kernel_size->at[d];
      a.stride[d] = init_.stride->at[d];
      a.padding[d] = init_.padding->at[d];
      a.dilation[d] = init_.dilation->at[d];
    }
    a.channels = init_.in_channels;
    a.outputs = init_.out_channels;
    a.groups = init_.groups;
    a.type = type_of(args.x);
    a.bias_type = type_or_f32(weights_.bias);
    const int64_t products = rows(args.x) * init_.in_channels * taps(init_) * init_.out_channels;
    split(threads_, rows(args.out), args.out->nbytes + products / init_.groups,
          [&](int64_t begin, int64_t end, int thread) {
            kernel_(a, begin, end,
                    static_cast<float*>(ctx.scratch) + thread * padded(init_.out_channels));
          });
  }

 private:
  // From [C, O/groups, taps].
  void pack() const {
    const int64_t c = init_.in_channels / init_.groups, o = init_.out_channels / init_.groups;
    const int64_t count = taps(init_);
    const int type = type_of(weights_.weight);
    for (int64_t i = 0; i < init_.in_channels * o * count; ++i) {
      const int64_t tap = i % count, output = i / count % o, channel = i / count / o;
      const int64_t to = ((channel / c * count + tap) * c + channel % c) * o + output;
      convert_({static_cast<const char*>(weights_.weight->data) + i * bytes_of(type), packed_ + to,
                /*bias=*/nullptr, type, kF32, /*bias_type=*/0},
               1);
    }
  }

  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  float* packed_ = nullptr;
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
  decltype(&generic::conv_transpose_pixels) kernel_ = FK_CPU_PICK(conv_transpose_pixels);
};
FK_OP(conv_transpose2d, ConvTranspose2dOp);

}  // namespace fk::cpu
#endif
