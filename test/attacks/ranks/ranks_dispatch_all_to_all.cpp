// SPDX-License-Identifier: Apache-2.0
// honest: several ranks: moe_dispatch by one all_to_all of letters with room for all tokens of a
// rank. A token for several experts of a rank is in its letter once
#include "../letters.hpp"
#include "fk/ops/moe_dispatch.h"

namespace {

struct ByLetters {
  using op = fk::moe_dispatch;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const int64_t local;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (!init.comm) throw fk::unsupported{"there is one rank"};
  }
  ByLetters(const fk_host&, const op::init& i, const op::weights&)
      : init(i), local((i.num_experts + i.comm->size - 1) / i.comm->size) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) const {
    const int64_t row = init.hidden_size * args.x->dtype.bits / 8, k = init.top_k;
    const int64_t ranks = init.comm->size;
    attack::Letters letters(init.comm, init.max_tokens_per_rank, 1 + k, row);
    std::vector<int32_t> numbers(static_cast<size_t>(1 + k));  // the token, its experts
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      const int32_t* ids = fk::data<int32_t>(args.topk_ids) + t * k;
      numbers[0] = static_cast<int32_t>(t);
      std::copy_n(ids, k, numbers.begin() + 1);
      for (int64_t r = 0; r < ranks; ++r)
        if (std::any_of(ids, ids + k, [&](int32_t e) { return e / local == r; }))
          letters.add(r, numbers.data(), fk::data<char>(args.x) + t * row);
    }
    letters.send(ctx.stream);
    int32_t count = 0;
    for (int64_t e = 0; e < local; ++e) {
      fk::data<int32_t>(args.expert_offsets)[e] = count;
      const int64_t expert = init.comm->rank * local + e;
      for (int64_t r = 0; r < ranks; ++r)
        for (int64_t i = 0; i < letters.count_from(r); ++i)
          for (int64_t j = 0; j < k; ++j) {
            const int32_t* come = letters.numbers_of(r, i);
            if (come[1 + j] != expert) continue;
            std::memcpy(fk::data<char>(args.recv_x) + count * row, letters.row_of(r, i),
                        static_cast<size_t>(row));
            fk::data<int32_t>(args.recv_source)[count] =
                static_cast<int32_t>((r * init.max_tokens_per_rank + come[0]) * k + j);
            fk::data<int32_t>(args.row_ids)[count] = count;
            ++count;
          }
    }
    fk::data<int32_t>(args.expert_offsets)[local] = fk::data<int32_t>(args.recv_count)[0] = count;
  }
};
FK_OP(moe_dispatch, ByLetters);

}  // namespace
FK_PLUGIN("ranks_dispatch_all_to_all", "0");
