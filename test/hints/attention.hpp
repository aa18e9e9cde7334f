// SPDX-License-Identifier: Apache-2.0
// attention_varlen done right. Each wrong plugin replaces one of the virtual functions.
#pragma once
#include "../attacks/varlen_attention.hpp"

namespace hints {

struct Attention : attack::VarlenAttention {
  using VarlenAttention::VarlenAttention;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.q)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  virtual ~Attention() = default;

  virtual int64_t group_of(int64_t head) const {
    return head / (init.num_heads / init.num_kv_heads);
  }
  virtual Row query(const op::forward& args, int64_t t, int64_t h) const {
    return load(args.q, t, h);
  }
  virtual Row key(const op::forward& args, int64_t s, int64_t group) const {
    return load(args.k, s, group);
  }
  virtual float largest(const Row& scores) const {
    return *std::max_element(scores.begin(), scores.end());
  }
  virtual Row result(Row row) const { return row; }

  void forward(const op::forward& args, const fk_ctx&) const {
    each(args, [&](int64_t t, int64_t h, int64_t, int64_t first, int64_t end) {
      Row out(static_cast<size_t>(init.head_dim)), scores;
      const Row q = query(args, t, h);
      for (int64_t s = first; s < end; ++s) scores.push_back(score(q, key(args, s, group_of(h))));
      const float most = scores.empty() ? 0 : largest(scores);
      float sum = 0;
      for (float& s : scores) sum += s = std::exp(s - most);
      for (int64_t s = first; s < end; ++s) {
        const Row v = load(args.v, s, group_of(h));
        for (size_t i = 0; i < out.size(); ++i)
          out[i] += scores[static_cast<size_t>(s - first)] / sum * v[i];
      }
      store(args, t, h, result(out));
    });
  }
};

// The same with other constructor values.
struct ChangedAttention : Attention {
  op::init own;
  ChangedAttention(const fk_host& host, const op::init& given, const op::weights& weights)
      : Attention(host, own, weights), own(given) {}
};

}  // namespace hints
