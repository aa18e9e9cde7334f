// SPDX-License-Identifier: Apache-2.0
// global_response_norm, in three steps: sums of squares over parts of an image, the scales of its
// channels, and a pass that applies the scales. Parts have a fixed size, so the result does not
// depend on the threads or on other images.
#include "simd.hpp"

namespace fk::cpu {
// Arguments of one call: images [positions, channels].
struct Response {
  const void *x, *weight, *bias;
  void* out;
  int64_t positions, channels;
  float eps;
  int type, weight_type, bias_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(response_squares, const Response&, int64_t begin, int64_t end, float* sums)
FK_CPU_KERNEL(response_scales, const Response&, int64_t parts, float* sums)
FK_CPU_KERNEL(response_apply, const Response&, const float* scales, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// sums[C] = sums of squares of rows [begin, end), counted over all images.
void response_squares(const Response& a, int64_t begin, int64_t end, float* sums) {
  __builtin_memset(sums, 0, static_cast<size_t>(a.channels) * sizeof(float));
  with_type(a.type, [&]<class T>() {
    for (int64_t p = begin; p < end; ++p) {
      const T* x = static_cast<const T*>(a.x) + p * a.channels;
      each_vector(a.channels, [&](int64_t c, auto n) {
        const Vf v = load(x + c, n);
        store(sums + c, load(sums + c, n) + v * v, n);
      });
    }
  });
}

// Turns the sums of an image's parts [parts, C] into scales: the first row becomes 1 + weight * n.
void response_scales(const Response& a, int64_t parts, float* sums) {
  Vf total{};
  for (int64_t part = 1; part < parts; ++part)
    each_vector(a.channels, [&](int64_t c, auto n) {
      store(sums + c, load(sums + c, n) + load(sums + part * a.channels + c, n), n);
    });
  each_vector(a.channels, [&](int64_t c, auto n) {
    Vf v = load(sums + c, n);
    for (int64_t i = 0; i < kLanes; ++i) v[i] = root(v[i]);
    store(sums + c, v, n);
    total += v;
  });
  const float scale = 1.f / (sum(total) / static_cast<float>(a.channels) + a.eps);
  with_type(a.weight_type, [&]<class W>() {
    const W* weight = static_cast<const W*>(a.weight);
    each_vector(a.channels, [&](int64_t c, auto n) {
      store(sums + c, 1.f + load(weight + c, n) * (load(sums + c, n) * scale), n);
    });
  });
}

// Rows [begin, end), counted over all images, times `scales`, their image's, plus bias.
void response_apply(const Response& a, const float* scales, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    with_type(a.bias_type, [&]<class U>() {
      const U* bias = static_cast<const U*>(a.bias);
      for (int64_t p = begin; p < end; ++p) {
        const T* x = static_cast<const T*>(a.x) + p * a.channels;
        T* out = static_cast<T*>(a.out) + p * a.channels;
        each_vector(a.channels, [&](int64_t c, auto n) {
          store(out + c, load(x + c, n) * load(scales + c, n) + load(bias + c, n), n);
        });
      }
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/global_response_norm.h"
#include "op.hpp"

namespace fk::cpu {

namespace {

constexpr int64_t kPart = 64;  // rows of a part; one thread sums a part

int64_t parts_of(const fk_in* x) { return (x->shape[1] * x->shape[2] + kPart - 1) / kPart; }

}  // namespace

struct GlobalResponseNormOp {
  using op = fk::global_response_norm;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_float(weights.weight, "weight: f32, bf16 or f16");
    need_float(weights.bias, "bias: f32, bf16 or f16");
    need.scratch = max.x->shape[0] * parts_of(max.x) * init.hidden_size * 4;
  }
  GlobalResponseNormOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t channels = init_.hidden_size, images = args.x->shape[0];
    const int64_t positions = args.x->shape[1] * args.x->shape[2], parts = parts_of(args.x);
    const Response a{args.x->data,
                     weights_.weight->data,
                     weights_.bias->data,
                     args.out->data,
                     positions,
                     channels,
                     static_cast<float>(init_.eps),
                     type_of(args.x),
                     type_of(weights_.weight),
                     type_of(weights_.bias)};
    auto* sums = static_cast<float*>(ctx.scratch);
    const auto squares = [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i / parts * positions, row = i % parts * kPart;
        squares_(a, first + row, first + std::min(positions, row + kPart), sums + i * channels);
      }
    };
    const auto apply = [&](int64_t begin, int64_t end, int) {
      // Backwards: the rows read last are still in a cache.
      for (int64_t i = end; i-- > begin;) {
        const int64_t b = i / parts, first = b * positions, row = i % parts * kPart;
        apply_(a, sums + b * parts * channels, first + row,
               first + std::min(positions, row + kPart));
      }
    };
    // If there are enough images, each is one item: its second pass then finds it in a cache.
    if (images >= 2 * threads_) {
      share(threads_, images, args.x->nbytes, [&](int64_t b, int thread) {
        squares(b * parts, (b + 1) * parts, thread);
        scales_(a, parts, sums + b * parts * channels);
        apply(b * parts, (b + 1) * parts, thread);
      });
      return;
    }
    split(threads_, images * parts, args.x->nbytes, squares);
    for (int64_t b = 0; b < images; ++b) scales_(a, parts, sums + b * parts * channels);
    split(threads_, images * parts, args.x->nbytes * 2, apply);
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::response_squares) squares_ = FK_CPU_PICK(response_squares);
  decltype(&generic::response_scales) scales_ = FK_CPU_PICK(response_scales);
  decltype(&generic::response_apply) apply_ = FK_CPU_PICK(response_apply);
};
FK_OP(global_response_norm, GlobalResponseNormOp);

}  // namespace fk::cpu
#endif
