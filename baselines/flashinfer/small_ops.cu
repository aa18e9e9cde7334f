// SPDX-License-Identifier: Apache-2.0
// Small ops whose FlashInfer kernels match the contracts: rms_norm, rotary_embedding, silu_and_mul.
// Without a match:
//   rms_norm with a residual   FlashInfer writes the result over its input, which is not an output here
//   kv_cache_append            it wants a request and a position for each token; the contract has slots,
//                              and skips some
//   sample_tokens              it draws its own random numbers; the contract gives one
//   topk_softmax, grouped_topk, topk_logprobs
//                              its top-k gives values and places only; probabilities and groups would be
//                              kernels of this project around it, and `cuda` has one for all
#include <flashinfer/activation.cuh>
#include <flashinfer/norm.cuh>
#include <flashinfer/pos_enc.cuh>
#include <string>

#include "common.hpp"
#include "fk/ops/rms_norm.h"
#include "fk/ops/rotary_embedding.h"
#include "fk/ops/silu_and_mul.h"

namespace {
using namespace fkf;

constexpr fk_claims kClaims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 1, kSm};

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}
cudaStream_t stream(const fk_ctx& ctx) { return static_cast<cudaStream_t>(ctx.stream); }
template <class T> T* writable(const void* p) { return static_cast<T*>(const_cast<void*>(p)); }
template <class F> void by_dtype(const fk_in* view, F f) {
  if (FK_DTYPE(view) == FK_BF16) f(__nv_bfloat16{});
  else f(__half{});
}

template <class Op> struct Base {
  using op = Op;
  static constexpr fk_claims claims = kClaims;
  const typename Op::init& init;
  const typename Op::weights& weights;
  Base(const fk_host&, const typename Op::init& i, const typename Op::weights& w) : init(i), weights(w) {}
  void prepare(const typename Op::forward&, const fk_memory&) {}
};

struct RmsNorm : Base<fk::rms_norm> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(weights.weight.or_null, "weight: not without one");
    need(FK_DTYPE(weights.weight.or_null) == FK_DTYPE(max.x), "weight: the dtype of x only");
    need(!max.residual.or_null, "residual: none; FlashInfer writes the result over its input");
    need(init.hidden_size % 8 == 0, "hidden_size: multiples of 8");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.x->shape[0]) return;
    const auto width = uint32_t(init.hidden_size);
    by_dtype(a.x, [&](auto type) {
      using T = decltype(type);
      check(flashinfer::norm::RMSNorm(writable<T>(a.x->data), writable<T>(weights.weight.or_null->data), static_cast<T*>(a.out->data),
                                      uint32_t(a.x->shape[0]), width, width, width, float(init.eps), true, stream(ctx)),
            "rms_norm");
    });
  }
};
FK_OP(rms_norm, RmsNorm);

struct RotaryEmbedding : Base<fk::rotary_embedding> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(fk_as_in(max.q));
    need(init.head_dim == 64 || init.head_dim == 128, "head_dim: 64 or 128");
    need(init.rotary_dim % 16 == 0, "rotary_dim: multiples of 16");
    need_aligned(fk_as_in(max.q));
    need_aligned(fk_as_in(max.k));
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.q->shape[0]) return;
    const int64_t *q = a.q->strides, *k = a.k->strides;
    by_dtype(fk_as_in(a.q), [&](auto type) {
      using T = decltype(type);
      T *const at_q = static_cast<T*>(a.q->data), *const at_k = static_cast<T*>(a.k->data);
      check(flashinfer::BatchQKApplyRotaryPosIdsCosSinCache(
                at_q, at_k, at_q, at_k, writable<float>(weights.cos_sin_cache->data), writable<int64_t>(a.positions->data),
                uint32_t(a.q->shape[0]), uint32_t(init.num_heads), uint32_t(init.num_kv_heads), uint32_t(init.rotary_dim),
                uint32_t(init.head_dim), size_t(q[0]), size_t(q[1]), size_t(k[0]), size_t(k[1]), size_t(q[0]), size_t(q[1]), size_t(k[0]),
                size_t(k[1]), init.interleaved != 0, stream(ctx)),
            "rotary_embedding");
    });
  }
};
FK_OP(rotary_embedding, RotaryEmbedding);

__device__ __forceinline__ float silu(const float& x) { return x / (1.F + __expf(-x)); }

struct SiluAndMul : Base<fk::silu_and_mul> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(init.size % 8 == 0, "size: multiples of 8");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.x->shape[0]) return;
    by_dtype(a.x, [&](auto type) {
      using T = decltype(type);
      cudaLaunchAttribute early{};
      early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      early.val.programmaticStreamSerializationAllowed = 1;
      cudaLaunchConfig_t config{};
      config.gridDim = unsigned(a.x->shape[0]);
      config.blockDim = unsigned(std::min<int64_t>(init.size / 8, 1024));
      config.stream = stream(ctx);
      config.attrs = &early;
      config.numAttrs = 1;
      check(cudaLaunchKernelEx(&config, flashinfer::activation::act_and_mul_kernel<T, silu>, static_cast<T*>(a.out->data),
                               static_cast<const T*>(a.x->data), int(init.size)),
            "silu_and_mul");
    });
  }
};
FK_OP(silu_and_mul, SiluAndMul);

}  // namespace
