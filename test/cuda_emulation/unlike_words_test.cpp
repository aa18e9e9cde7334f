// SPDX-License-Identifier: Apache-2.0
// moe_dispatch of few tokens between two ranks, one of them with rows at addresses that are no
// multiple of 16. Rows that carry their own flags arrive whatever they hold (loose.cuh).
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda/collective/dispatch_few.cuh>

#include "test/catch.hpp"

namespace {

using namespace fkc;
using namespace fkc::experts;

constexpr int kRanks = 2, kTokens = 3, kHidden = 24, kCalls = 3;
struct Two {
  int size = kRanks;
};
struct Of {
  const Two* comm;
  int64_t hidden_size = kHidden, num_experts = kRanks, top_k = 1, max_tokens_per_rank = kTokens;
};

// A rank's values: 16 bits of all kinds, also NaNs with all bits set.
unsigned short element(int rank, int call, int at) {
  return at % 5 == 2 ? 0xffff : static_cast<unsigned short>(rank << 12 | call << 8 | at);
}

// One rank's part: every token goes to the other rank. The exit status: 0 where all of them have
// come.
int run_rank(char* memory, size_t bytes, int me) {
  Ranks ranks{};
  ranks.rank = me, ranks.size = kRanks;
  for (int r = 0; r < kRanks; ++r) ranks.at[r] = memory + bytes * static_cast<size_t>(r);
  alignas(16) unsigned short room[kTokens * kHidden + 8];
  alignas(16) unsigned short came[kRanks * kTokens * kHidden + 8];
  unsigned short *const x = room + me, *const rows = came + me;  // of rank 1 not aligned
  int32_t ids[kTokens], source[kRanks * kTokens], row_ids[kRanks * kTokens], offsets[2], count = 0;
  std::fill(ids, ids + kTokens, 1 - me);
  for (int call = 0; call < kCalls; ++call) {
    for (int i = 0; i < kTokens * kHidden; ++i) x[i] = element(me, call, i);
    with_flagged_words(2, kHidden * 2, x, rows, [&](auto type) {
      using Word = decltype(type);
      const Two two;
      Shape s = shape_of(Of{&two}, 2, kHidden * 2, int(sizeof(Word)));
      s.boxes = whole(int64_t{kRanks} * s.most * s.row_bytes);
      const Tokens<Word> tokens{reinterpret_cast<const Word*>(x), ids, kTokens,
                                reinterpret_cast<Word*>(rows)};
      const Sorted to{source, offsets, row_ids, &count, nullptr, 1, 0};
      fk_emulation::run_grid(dim3(2), dim3(1), kThreads, 0,
                             [&] { dispatch_few<Word>(tokens, to, s, ranks); });
    });
    if (count != kTokens) return 2;
    for (int i = 0; i < kTokens * kHidden; ++i)
      if (rows[i] != element(1 - me, call, i) && (rows[i] | 1) != 0xffff) return 3;
  }
  return 0;
}

TEST_CASE("rows come between ranks whose addresses are not aligned alike") {
  constexpr size_t kBytes = size_t{8} << 20;
  void* const memory = ::mmap(nullptr, kRanks * kBytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  pid_t ranks[kRanks];
  for (int r = 0; r < kRanks; ++r) {
    ranks[r] = ::fork();
    if (ranks[r] != 0) continue;
    ::alarm(20);  // who waits for what never comes is ended
    ::_exit(run_rank(static_cast<char*>(memory), kBytes, r));
  }
  for (int r = 0; r < kRanks; ++r) {
    int status = -1;
    REQUIRE(::waitpid(ranks[r], &status, 0) == ranks[r]);
    INFO("rank " << r);
    CHECK(status == 0);
  }
  ::munmap(memory, kRanks * kBytes);
}

}  // namespace
