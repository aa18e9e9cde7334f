// SPDX-License-Identifier: Apache-2.0
// honest: several ranks: moe_combine by one all_to_all of letters with room for all that a rank's
// experts may say to another
#include "../letters.hpp"
#include "fk/ops/moe_combine.h"

namespace {

struct ByLetters {
  using op = fk::moe_combine;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (!init.comm) throw fk::unsupported{"there is one rank"};
    if (!fk::is_float(max.x)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  ByLetters(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) const {
    const int64_t width = init.hidden_size, row = width * args.x->dtype.bits / 8, k = init.top_k;
    const int64_t ranks = init.comm->size, tokens = args.out->shape[0];
    const int64_t local = (init.num_experts + ranks - 1) / ranks;
    attack::Letters letters(init.comm, init.max_tokens_per_rank * std::min(k, local), 1, row);
    for (int64_t i = 0; i < *fk::data<int32_t>(args.count); ++i) {
      const int32_t source = fk::data<int32_t>(args.source)[i];
      const int64_t of_rank = init.max_tokens_per_rank * k;
      const auto choice = static_cast<int32_t>(source % of_rank);
      letters.add(source / of_rank, &choice, fk::data<char>(args.x) + i * row);
    }
    letters.send(ctx.stream);
    // By choice, so that they are added up in the order of a token's choices.
    std::vector<const void*> said(static_cast<size_t>(tokens * k));
    for (int64_t r = 0; r < ranks; ++r)
      for (int64_t i = 0; i < letters.count_from(r); ++i)
        said[static_cast<size_t>(*letters.numbers_of(r, i))] = letters.row_of(r, i);
    std::vector<float> sum(static_cast<size_t>(width)), one(sum.size());
    fk_in view = *args.x;
    for (int64_t t = 0; t < tokens; ++t) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (int64_t j = 0; j < k; ++j) {
        view.data = const_cast<void*>(said[static_cast<size_t>(t * k + j)]);
        fk::load(&view, 0, width, one.data());
        const float weight = fk::data<float>(args.topk_weights)[t * k + j];
        for (size_t c = 0; c < sum.size(); ++c) sum[c] += weight * one[c];
      }
      fk::store(args.out, t * width, width, sum.data());
    }
  }
};
FK_OP(moe_combine, ByLetters);

}  // namespace
FK_PLUGIN("ranks_combine_all_to_all", "0");
