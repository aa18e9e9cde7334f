// SPDX-License-Identifier: Apache-2.0
// moe_dispatch: every rank lays its tokens and their experts where all can read them, and takes
// what is for its own experts.
#include "fk/ops/moe_dispatch.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct MoeDispatch : Ranked<moe_dispatch> {
  using Ranked::Ranked;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_comm(init.comm);
    need_floats(max.x, max.recv_x);
    if (max.x->shape[0] > init.max_tokens_per_rank)
      throw unsupported{"x: more rows than max_tokens_per_rank"};
  }
  // A rank's buffer: the number of its tokens, their experts, their rows.
  void prepare(const op::forward& max, const fk_memory&) {
    row_ = init.hidden_size * max.x->dtype.bits / 8;
    ids_ = (init.max_tokens_per_rank * init.top_k * 4 + 15) / 8 * 8;
    make_buffer(8 + ids_ + init.max_tokens_per_rank * row_);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const ExpertRanks ranks(init);
    char* mine = buffer_of<char>(shared, ranks.rank);
    const int64_t tokens = args.x->shape[0];
    std::memcpy(mine, &tokens, 8);
    if (tokens) {
      std::memcpy(mine + 8, args.topk_ids->data, static_cast<size_t>(tokens * ranks.top_k * 4));
      std::memcpy(mine + 8 + ids_, args.x->data, static_cast<size_t>(tokens * row_));
    }
    barrier(ctx);
    int32_t count = 0;
    auto* offsets = data<int32_t>(args.expert_offsets);
    for (int64_t e = 0; e < ranks.local; ++e) {
      offsets[e] = count;
      for (int64_t r = 0; r < ranks.ranks; ++r) count = take(args, ranks, e, r, count);
    }
    offsets[ranks.local] = data<int32_t>(args.recv_count)[0] = count;
    barrier(ctx);
  }

 private:
  // The rows of one rank for a local expert, behind the first `count`; how many there are then.
  int32_t take(const op::forward& args, const ExpertRanks& ranks, int64_t expert, int64_t from,
               int32_t count) const {
    const char* theirs = buffer_of<char>(shared, from);
    int64_t tokens = 0;
    std::memcpy(&tokens, theirs, 8);
    const auto* ids = reinterpret_cast<const int32_t*>(theirs + 8);
    for (int64_t i = 0; i < tokens * ranks.top_k; ++i) {
      if (ranks.local_of(ids[i]) != expert) continue;
      std::memcpy(data<char>(args.recv_x) + count * row_,
                  theirs + 8 + ids_ + i / ranks.top_k * row_, static_cast<size_t>(row_));
      data<int32_t>(args.recv_source)[count] =
          static_cast<int32_t>(from * ranks.most * ranks.top_k + i);
      data<int32_t>(args.row_ids)[count] = count;
      ++count;
    }
    return count;
  }
  int64_t row_ = 0, ids_ = 0;  // bytes
};
FK_OP(moe_dispatch, MoeDispatch);

}  // namespace
}  // namespace fk::reference
