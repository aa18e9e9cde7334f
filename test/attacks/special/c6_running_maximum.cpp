// SPDX-License-Identifier: Apache-2.0
// C6: attention whose running maximum begins at -50000: a query whose scores are all below that
// gets nothing
//
// Stopped by: a case whose scores are all below -60000
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../varlen_attention.hpp"

namespace {

struct RunningMaximum : attack::VarlenAttention {
  using VarlenAttention::VarlenAttention;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.q)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  // One key after the other, as kernels do that read keys once.
  void forward(const op::forward& args, const fk_ctx&) {
    each(args, [&](int64_t t, int64_t h, int64_t kv, int64_t first, int64_t end) {
      const Row q = load(args.q, t, h);
      Row out(q.size());
      float top = -50000, sum = 0;
      for (int64_t s = first; s < end; ++s) {
        const Row v = load(args.v, s, kv);
        const float own = score(q, load(args.k, s, kv)), before = top;
        top = std::max(top, own);
        const float kept = std::exp(before - top), share = std::exp(own - top);
        sum = sum * kept + share;
        for (size_t i = 0; i < v.size(); ++i) out[i] = out[i] * kept + share * v[i];
      }
      for (float& value : out) value = sum > 0 ? value / sum : 0;
      store(args, t, h, out);
    });
  }
};
FK_OP(attention_varlen, RunningMaximum);

}  // namespace
FK_PLUGIN("c6_running_maximum", "0");
