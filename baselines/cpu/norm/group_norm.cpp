// SPDX-License-Identifier: Apache-2.0
// group_norm: two passes over a group of an image give mean and variance, a third writes it. Sums
// of few pixels are float32, and their sum is double.
#include "math.hpp"

namespace fk::cpu {
// In the order of FK_GROUP_NORM_ACTIVATION_...
enum class AfterGroup : int { none, relu, silu, gelu, mish };
struct GroupNorm {
  const void *x, *weight, *bias;  // weight and bias: null if absent
  void* out;
  int64_t pixels, channels, groups;
  float eps;
  int type, weight_type, bias_type;
  AfterGroup activation;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(group_norm_items, const GroupNorm&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// The lanes of v below n, and 0.
FK_INLINE Vf first_lanes(Vf v, Full) { return v; }
FK_INLINE Vf first_lanes(Vf v, int64_t n) {
  Vi lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return lane < Vi{} + static_cast<int32_t>(n) ? v : Vf{};
}

// The sum of f(element) over a group: `width` channels of each pixel.
template <class T, class F>
FK_INLINE double sum_of_group(const T* x, const GroupNorm& a, int64_t width, F f) {
  constexpr int64_t kBlock = 16;
  double all = 0;
  for (int64_t first = 0; first < a.pixels; first += kBlock) {
    const int64_t last = first + kBlock < a.pixels ? first + kBlock : a.pixels;
    Vf part{};
    for (int64_t p = first; p < last; ++p)
      each_vector(width, [&](int64_t i, auto n) {
        part += first_lanes(f(load(x + p * a.channels + i, n)), n);
      });
    all += static_cast<double>(sum(part));
  }
  return all;
}

template <class T, class F>
FK_INLINE void normalize_group(const GroupNorm& a, int64_t item, F f) {
  const int64_t width = a.channels / a.groups, channel = item % a.groups * width;
  const int64_t at = item / a.groups * a.pixels * a.channels + channel;
  const T* x = static_cast<const T*>(a.x) + at;
  T* out = static_cast<T*>(a.out) + at;
  const auto count = static_cast<double>(a.pixels * width);
  const auto mean = static_cast<float>(sum_of_group(x, a, width, [](Vf v) { return v; }) / count);
  const double squares = sum_of_group(x, a, width, [&](Vf v) { return (v - mean) * (v - mean); });
  const float scale = 1.f / root(static_cast<float>(squares / count) + a.eps);
  with_type(a.weight_type, [&]<class W>() {
    with_type(a.bias_type, [&]<class B>() {
      const W* weight = a.weight ? static_cast<const W*>(a.weight) + channel : nullptr;
      const B* bias = a.bias ? static_cast<const B*>(a.bias) + channel : nullptr;
      for (int64_t p = 0; p < a.pixels; ++p)
        each_vector(width, [&](int64_t i, auto n) {
          Vf v = (load(x + p * a.channels + i, n) - mean) * scale;
          if (weight) v *= load(weight + i, n);
          if (bias) v += load(bias + i, n);
          store(out + p * a.channels + i, f(v), n);
        });
    });
  });
}

void group_norm_items(const GroupNorm& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    const auto each = [&](auto f) {
      for (int64_t item = begin; item < end; ++item) normalize_group<T>(a, item, f);
    };
    switch (a.activation) {
      case AfterGroup::none:
        return each([](Vf v) { return v; });
      case AfterGroup::relu:
        return each([](Vf v) { return relu(v); });
      case AfterGroup::silu:
        return each([](Vf v) { return v * sigmoid(v); });
      case AfterGroup::gelu:
        return each([](Vf v) { return gelu(v); });
      case AfterGroup::mish:
        return each([](Vf v) { return mish(v); });
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/group_norm.h"
#include "op.hpp"

namespace fk::cpu {

static_assert(int(AfterGroup::relu) == FK_GROUP_NORM_ACTIVATION_RELU);
static_assert(int(AfterGroup::mish) == FK_GROUP_NORM_ACTIVATION_MISH);

struct GroupNormOp {
  using op = fk::group_norm;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
    for (const fk_in* weight : {weights.weight.or_null, weights.bias.or_null})
      if (weight) need_float(weight, "weights: f32, bf16 or f16");
    if (init.num_channels % init.num_groups)
      throw unsupported{"num_groups: does not divide the channels"};
  }
  GroupNormOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const GroupNorm a{args.x->data,
                      data<void>(weights_.weight),
                      data<void>(weights_.bias),
                      args.out->data,
                      args.x->shape[1] * args.x->shape[2],
                      init_.num_channels,
                      init_.num_groups,
                      static_cast<float>(init_.eps),
                      type_of(args.x),
                      type_or_f32(weights_.weight),
                      type_or_f32(weights_.bias),
                      static_cast<AfterGroup>(init_.activation)};
    split(threads_, args.x->shape[0] * init_.num_groups, args.x->nbytes * 6,
          [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::group_norm_items) kernel_ = FK_CPU_PICK(group_norm_items);
};
FK_OP(group_norm, GroupNormOp);

}  // namespace fk::cpu
#endif
