// SPDX-License-Identifier: Apache-2.0
// honest: token_logprob in float32, over a vocabulary of 126464
//
// size: full
#include "../attack.hpp"
#include "fk/ops/token_logprob.h"

namespace {

struct FloatLogprob {
  using op = fk::token_logprob;
  static constexpr fk_claims claims = fk::cpu_claims;
  static constexpr size_t kLanes = 64;
  const op::init& init;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.logits)) throw fk::unsupported{"f32 and bf16 only"};
  }
  FloatLogprob(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<float> row(static_cast<size_t>(init.vocab_size));
    for (int64_t b = 0; b < args.logits->shape[0]; ++b) {
      fk::load(args.logits, b * init.vocab_size, init.vocab_size, row.data());
      const float top = *std::max_element(row.begin(), row.end());
      float lanes[kLanes] = {}, sum = 0;
      for (size_t i = 0; i < row.size(); ++i) lanes[i % kLanes] += std::exp(row[i] - top);
      for (const float lane : lanes) sum += lane;
      const auto token = static_cast<size_t>(fk::data<int64_t>(args.tokens)[b]);
      fk::data<float>(args.logprob)[b] = row[token] - top - std::log(sum);
    }
  }
};
FK_OP(token_logprob, FloatLogprob);

}  // namespace
FK_PLUGIN("float_logprob", "0");
