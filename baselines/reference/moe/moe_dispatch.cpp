// SPDX-License-Identifier: Apache-2.0
// moe_dispatch: brings the rows of tokens to the ranks of their experts. Every rank shares its
// tokens and their expert numbers (Ranked in collective.hpp); each then copies the rows for its own
// experts.
#include "fk/ops/moe_dispatch.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct MoeDispatch : Ranked<moe_dispatch> {
  using Ranked::Ranked;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_comm(init.comm);
    need_floats(max.x, max.recv_x);
    if (max.x->shape[0] > init.max_tokens_per_rank)
      throw unsupported{"x: more rows than max_tokens_per_rank"};
    need_buffer(init.comm, Layout(init, max).bytes, need);
  }
  // A rank's buffer: the number of its tokens (8 bytes), their expert numbers, their rows. All
  // sizes are in bytes.
  struct Layout {
    int64_t row = 0, ids = 0, bytes = 0;  // row: of one token; ids: of all expert numbers
    Layout() = default;
    Layout(const op::init& init, const op::forward& max)
        : row(init.hidden_size * max.x->dtype.bits / 8),
          ids((init.max_tokens_per_rank * init.top_k * 4 + 15) / 8 * 8),
          bytes(8 + ids + init.max_tokens_per_rank * row) {}
  };
  void prepare(const op::forward& max, const fk_memory& memory) {
    layout_ = Layout(init, max);
    make_buffer(layout_.bytes, memory);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const ExpertRanks ranks(init);
    char* mine = this->mine<char>();
    const int64_t tokens = args.x->shape[0];
    std::memcpy(mine, &tokens, 8);
    if (tokens) {
      std::memcpy(mine + 8, args.topk_ids->data, static_cast<size_t>(tokens * ranks.top_k * 4));
      std::memcpy(mine + 8 + layout_.ids, args.x->data, static_cast<size_t>(tokens * layout_.row));
    }
    share(ctx, layout_.bytes);
    int32_t count = 0;
    auto* offsets = data<int32_t>(args.expert_offsets);
    for (int64_t e = 0; e < ranks.local; ++e) {
      offsets[e] = count;
      for (int64_t r = 0; r < ranks.ranks; ++r) count = take(args, ranks, e, r, count);
    }
    offsets[ranks.local] = data<int32_t>(args.recv_count)[0] = count;
    done(ctx);
  }

 private:
  // Copies the rows of rank `from` for a local expert, after the first `count` received rows.
  // Returns the new count.
  int32_t take(const op::forward& args, const ExpertRanks& ranks, int64_t expert, int64_t from,
               int32_t count) const {
    const char* theirs = shared_by<char>(from);
    int64_t tokens = 0;
    std::memcpy(&tokens, theirs, 8);
    const auto* ids = reinterpret_cast<const int32_t*>(theirs + 8);
    for (int64_t i = 0; i < tokens * ranks.top_k; ++i) {
      if (ranks.local_of(ids[i]) != expert) continue;
      std::memcpy(data<char>(args.recv_x) + count * layout_.row,
                  theirs + 8 + layout_.ids + i / ranks.top_k * layout_.row,
                  static_cast<size_t>(layout_.row));
      // The number of the assignment, counted over all ranks.
      data<int32_t>(args.recv_source)[count] =
          static_cast<int32_t>(from * ranks.most * ranks.top_k + i);
      data<int32_t>(args.row_ids)[count] = count;
      ++count;
    }
    return count;
  }
  Layout layout_;
};
FK_OP(moe_dispatch, MoeDispatch);

}  // namespace
}  // namespace fk::reference
