// SPDX-License-Identifier: Apache-2.0
// attention_varlen in which every token sees itself alone: fast and wrong, and not a mutant's
// answer either, because the residual stream is right.
#define FK_ATTENTION_VARLEN_EDITION 1
#include "fk/ops/attention_varlen.h"

#include <cstring>

namespace {

struct SelfOnly {
  using op = fk::attention_varlen;
  static constexpr fk_claims claims = fk::cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (FK_DTYPE(max.q) != FK_F32) throw fk::unsupported{"q: float32 only"};
    if (max.q->shape[1] != max.v->shape[1] || max.q->shape[2] != max.v->shape[2])
      throw fk::unsupported{"v: as many heads as q"};
    if (max.q->shape[0] != max.v->shape[0]) throw fk::unsupported{"v: as many tokens as q"};
  }
  SelfOnly(const fk_host&, const op::init&, const op::weights&) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t heads = args.out->shape[1], width = args.out->shape[2];
    float* out = fk::data<float>(args.out);
    for (int64_t t = 0; t < args.out->shape[0]; ++t)
      for (int64_t h = 0; h < heads; ++h)
        std::memcpy(out + (t * heads + h) * width,
                    fk::data<float>(args.v) + t * args.v->strides[0] + h * args.v->strides[1],
                    static_cast<size_t>(width) * sizeof(float));
  }
};
FK_OP(attention_varlen, SelfOnly);

}  // namespace
FK_PLUGIN("self_only", "1");
