// SPDX-License-Identifier: Apache-2.0
// conv2d: a group for each channel (depthwise.cuh), or one group (implicit_gemm.cuh).
#include "fk/ops/conv2d.h"

#include "depthwise.cuh"
#include "implicit_gemm.cuh"

namespace {
using namespace fkc;

struct Conv2d : Base<fk::conv2d> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& wanted) {
    if (FK_DTYPE(max.x) != FK_F32) need_16bit(max.x);
    need_parameter(weights.weight, max.x);
    need_parameter(weights.bias.or_null, max.x);
    need_near(init, max.out);
    if (conv::is_depthwise(init)) return conv::need_depthwise(init, max.x, fk_as_in(max.out));
    conv::need_implicit_gemm(init, weights.weight, max.x, fk_as_in(max.out));
    wanted.packed = conv::turned_bytes(init);
  }
  void prepare(const op::forward&, const fk_memory& memory) {
    weight_ = weights.weight->data;
    if (conv::is_depthwise(init) || !conv::turned_bytes(init)) return;
    if (!memory.packed_ready) conv::turn_weights(init, weights.weight, memory);
    weight_ = memory.packed;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const conv::Window window = conv::window_of(init, a.x, fk_as_in(a.out));
    with_float(a.x, [&](auto type) {
      using T = decltype(type);
      const conv::Ending<T> ending{nullptr, nullptr,
                                   parameter<conv::Narrow<T>>(weights.bias.or_null), 0};
      if (conv::is_depthwise(init))
        conv::launch_depthwise<T>(window, a.x->shape[0], fk::data<T>(a.x),
                                  parameter<conv::Narrow<T>>(weights.weight), ending,
                                  fk::data<T>(a.out), ctx);
      else if constexpr (!std::is_same_v<T, float>)
        conv::launch_implicit_gemm<T>(window, a.x->shape[0], fk::data<T>(a.x),
                                      static_cast<const T*>(weight_), ending, fk::data<T>(a.out),
                                      ctx);
    });
  }

 private:
  // For products in 32 bits.
  static void need_near(const op::init& init, const fk_out* out) {
    constexpr int64_t kFar = 1 << 29;
    for (int i = 0; i < 2; ++i)
      need(init.stride->at[i] < kFar && init.stride->at[i] * out->shape[i + 1] < kFar &&
               init.padding->at[i] < kFar && init.dilation->at[i] < kFar &&
               init.dilation->at[i] * init.kernel_size->at[i] < kFar,
           "stride, padding, dilation: smaller");
  }
  const void* weight_ = nullptr;
};
FK_OP(conv2d, Conv2d);

}  // namespace
