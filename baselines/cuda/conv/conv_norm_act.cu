// SPDX-License-Identifier: Apache-2.0
// conv_norm_act: the kernels of conv2d.cu, which end with the norm and the activation.
#include "fk/ops/conv_norm_act.h"

#include "../parts/channel_affine.cuh"
#include "depthwise.cuh"
#include "implicit_gemm.cuh"

namespace {
using namespace fkc;

struct ConvNormAct : Base<fk::conv_norm_act> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& wanted) {
    need_16bit(max.x);
    for (const fk_in* view : {weights.weight, weights.norm_weight, weights.norm_bias,
                              weights.norm_mean, weights.norm_variance})
      need_parameter(view, max.x);
    wanted.packed = affine_bytes(init.out_channels);
    if (conv::is_depthwise(init)) return conv::need_depthwise(init, max.x, fk_as_in(max.out));
    conv::need_implicit_gemm(init, weights.weight, max.x, fk_as_in(max.out));
    need(!is_deep(init, max),
         "many pixels and a deep sum: conv2d of another provider and batch_norm");
    wanted.packed += conv::turned_bytes(init);
  }
  // Packed: weights in the order of the kernel, then the norm.
  void prepare(const op::forward& max, const fk_memory& memory) {
    const int64_t turned = conv::is_depthwise(init) ? 0 : conv::turned_bytes(init);
    weight_ = turned ? memory.packed : weights.weight->data;
    table_ = reinterpret_cast<float*>(static_cast<char*>(memory.packed) + turned);
    if (memory.packed_ready) return;
    if (turned) conv::turn_weights(init, weights.weight, memory);
    dispatch(max.x, [&](auto type) {
      using T = decltype(type);
      fold_norm(NormOf<T>{parameter<T>(weights.norm_weight), parameter<T>(weights.norm_bias),
                          parameter<T>(weights.norm_mean), parameter<T>(weights.norm_variance),
                          float(init.eps)},
                init.out_channels, table_, memory.stream);
    });
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const conv::Window window = conv::window_of(init, a.x, fk_as_in(a.out));
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      const conv::Ending<T> ending{table_, table_ + init.out_channels, {}, int(init.activation)};
      if (conv::is_depthwise(init))
        conv::launch_depthwise<T>(window, a.x->shape[0], fk::data<T>(a.x),
                                  parameter<T>(weights.weight), ending, fk::data<T>(a.out), ctx);
      else
        conv::launch_implicit_gemm<T>(window, a.x->shape[0], fk::data<T>(a.x),
                                      static_cast<const T*>(weight_), ending, fk::data<T>(a.out),
                                      ctx);
    });
  }

 private:
  // By arithmetic, products on wgmma save more time here than a pass over the result costs. A sum of
  // 640 products takes 1.1 ps longer at 400 TFLOP/s than at 600, and four bytes take 1.2 ps.
  static bool is_deep(const op::init& init, const op::forward& max) {
    const int64_t taps = init.kernel_size->at[0] * init.kernel_size->at[1];
    const int64_t pixels = max.out->shape[0] * max.out->shape[1] * max.out->shape[2];
    return taps > 1 && taps * init.in_channels > 640 &&
           cdiv(pixels, 128) * cdiv(init.out_channels, 128) >= 4 * 132;
  }
  const void* weight_ = nullptr;
  float* table_ = nullptr;
};
FK_OP(conv_norm_act, ConvNormAct);

}  // namespace
