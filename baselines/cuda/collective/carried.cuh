// SPDX-License-Identifier: Apache-2.0
// moe_dispatch of many tokens, by the copy engine: a warp of a block fetches rows into slots of
// shared memory, another one has each of them written wherever it belongs, a lane for each place.
// So a row is read once and nobody's registers hold it. Rows are cut into pieces that fit into a
// slot.
#pragma once
#include "choices.cuh"

namespace fkc::experts {

// What is in flight of a block; three of them have room on a processor. In the emulation pieces are
// small, for small cases to have more.
struct Slots {
  static constexpr int kMost = 16, kPieceMost = kDevice == FK_CUDA ? 16 << 10 : 32;
  static constexpr int kBarriers = 256, kBytes = 72 << 10;
  static constexpr int kShared = kBarriers + kBytes;
  uint32_t base;
  int piece, count;  // bytes of a slot
  int slot = 0, turn = 0;
  __device__ Slots(int64_t row_bytes)
      : base(shared_address(dynamic_shared())),
        piece(row_bytes < kPieceMost ? int(row_bytes) : kPieceMost),
        count(min(kMost, kBytes / piece)) {}
  __device__ uint32_t full() const { return base + slot * 8; }
  __device__ uint32_t empty(int of) const { return base + kMost * 8 + of * 8; }
  __device__ uint32_t at() const { return base + kBarriers + slot * piece; }
  __device__ int before(int steps) const {
    return slot >= steps ? slot - steps : slot - steps + count;
  }
  __device__ void next() {
    if (++slot == count) slot = 0, ++turn;
  }
  // By one thread, before a barrier of the block.
  __device__ void init() const {
    for (int i = 0; i < count; ++i) barrier_init(base + i * 8, 1), barrier_init(empty(i), 1);
    fence_barriers();
  }
  // By a lane, when what was in the slot has been read.
  __device__ void fetch(const char* from, int bytes) {
    if (turn > 0) barrier_wait(empty(slot), (turn - 1) & 1);
    barrier_expect(full(), bytes);
    copy_bulk(at(), from, bytes, full());
  }
};
static_assert(Slots::kBytes / Slots::kPieceMost >= 4, "a slot is filled while others are written");

// Rows of a rank, as bytes.
struct Carried {
  const char* x;
  const int32_t* topk_ids;
  int count;
  char* rows;  // where they go to
  int64_t row_bytes;
  // f(offset, bytes) for the pieces of a row.
  template <class F>
  __device__ void each_piece(int piece, F f) const {
    for (int64_t at = 0; at < row_bytes; at += piece)
      f(at, row_bytes - at < piece ? int(row_bytes - at) : piece);
  }
};

// By a whole warp: the other ranks that have experts of a group's tokens, as bits.
__device__ inline void find_ranks(const Carried& carried, int first, const Shape& s, int me,
                                  unsigned (&wanted)[kGroup]) {
  const int lane = int(threadIdx.x) % 32;
  int of[kGroup];
#pragma unroll
  for (int k = 0; k < kGroup; ++k)
    of[k] = first + k < carried.count && lane < s.top_k
                ? __ldcg(carried.topk_ids + (first + k) * s.top_k + lane)
                : -1;
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    const int rank = unsigned(of[k]) < unsigned(s.experts) ? s.rank_of(of[k]) : -1;
    wanted[k] = 0;
    for (int r = 0; r * s.local < s.experts; ++r)
      if (r != me && __ballot_sync(kAll, rank == r)) wanted[k] |= 1u << r;
  }
}

// This rank's rows into the slots, as far as others want them.
__device__ inline void fetch_own(const Carried& carried, int sender, int senders, const Shape& s,
                                 const Ranks& ranks) {
  Slots slots(carried.row_bytes);
  for (int first = sender * kGroup; first < carried.count; first += senders * kGroup) {
    unsigned wanted[kGroup];
    find_ranks(carried, first, s, ranks.rank, wanted);
    if (threadIdx.x % 32) continue;
    for (int k = 0; k < kGroup; ++k) {
      if (!wanted[k]) continue;
      carried.each_piece(slots.piece, [&](int64_t at, int bytes) {
        slots.fetch(carried.x + (first + k) * carried.row_bytes + at, bytes);
        slots.next();
      });
    }
  }
  __syncwarp();
}

// From the slots to the others' boxes, a lane for each rank, with a flag for each group. What was
// sent kBehind pieces ago is there when the next one is sent.
__device__ inline void send_own(const Carried& carried, int sender, int senders, const Shape& s,
                                const Ranks& ranks, uint32_t call) {
  constexpr int kBehind = 2;
  const int lane = int(threadIdx.x) % 32, me = ranks.rank;
  Slots slots(carried.row_bytes);
  int sent = 0, group = -1, last = 0;  // pieces; the group to be told of, and the pieces until then
  const auto tell = [&] {
    if (group >= 0 && lane < ranks.size && lane != me) {
      fence_async();
      __threadfence_system();
      store_release(arrived(ranks, lane, me, group), call);
    }
    group = -1;
  };
  for (int first = sender * kGroup; first < carried.count; first += senders * kGroup) {
    unsigned wanted[kGroup];
    find_ranks(carried, first, s, me, wanted);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      if (!wanted[k]) continue;
      carried.each_piece(slots.piece, [&](int64_t at, int bytes) {
        barrier_wait(slots.full(), slots.turn & 1);
        if (wanted[k] >> lane & 1)
          store_bulk(box_of<char>(ranks, s, lane, me, 0) + (first + k) * carried.row_bytes + at,
                     slots.at(), bytes);
        commit_stores();
        await_stores<kBehind>();
        __syncwarp();
        if (lane == 0 && sent >= kBehind) barrier_arrive(slots.empty(slots.before(kBehind)));
        slots.next();
        if (++sent == last + kBehind) tell();
      });
    }
    if (group >= 0) {
      await_stores();
      tell();
    }
    group = first / kGroup, last = sent;
  }
  await_stores();
  tell();
  __syncwarp();
}

// By a whole warp: the places here of a group's tokens, a lane for each choice; or -1.
__device__ inline void find_places(const Choices& choices, int from, int first, int end,
                                   int (&places)[kGroup]) {
  const Shape& s = choices.s;
  const int lane = int(threadIdx.x) % 32;
  int expert[kGroup];
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    const int choice = (first + k) * s.top_k + lane;
    const bool there = first + k < end && lane < s.top_k;
    expert[k] = there ? __ldcg(table_of(choices.ranks, s, choices.ranks.rank, from) + choice) : -1;
    places[k] = there ? __ldcg(places_of(choices.ranks, s, from) + choice) : -1;
  }
#pragma unroll
  for (int k = 0; k < kGroup; ++k)
    if (choices.local(expert[k]) < 0) places[k] = -1;
}

// f(whose, first, end) for the groups that a taker has. Those with an even number begin with this
// rank's own rows and those with an odd one with the others' in the first half of them, and the
// other way round in the second half: two takers of a processor are apart by that.
template <class F>
__device__ void each_group(const Choices& choices, int taker, int takers, F f) {
  const int ranks = choices.ranks.size, me = choices.ranks.rank;
  const int half = max(1, takers / (2 * ranks));
  for (int job = taker; job < (choices.s.most + kGroup - 1) / kGroup * ranks; job += takers) {
    const int group = job / ranks, first = group * kGroup,
              from = (me + job % ranks + group / half) % ranks,
              end = min(choices.tokens.of(from), first + kGroup);
    if (first < end) f(from, first, end);
  }
}

// Rows that have places here into the slots: this rank's own from x, the others' as they come.
__device__ inline void fetch_come(const Carried& carried, const Choices& choices, int taker,
                                  int takers, uint32_t call) {
  const Ranks& ranks = choices.ranks;
  const int me = ranks.rank;
  Slots slots(carried.row_bytes);
  each_group(choices, taker, takers, [&](int from, int first, int end) {
    int places[kGroup];
    find_places(choices, from, first, end, places);
    unsigned here = 0;
#pragma unroll
    for (int k = 0; k < kGroup; ++k)
      here |= unsigned(__ballot_sync(kAll, places[k] >= 0) != 0) << k;
    if (threadIdx.x % 32 || !here) return;
    const char* rows = carried.x;
    if (from != me) {
      wait_until(arrived(ranks, me, from, first / kGroup), call);
      fence_async();  // others wrote it, the copy engine reads it
      rows = box_of<char>(ranks, choices.s, me, from, 0);
    }
    for (int k = 0; k < kGroup; ++k) {
      if (!(here >> k & 1)) continue;
      carried.each_piece(slots.piece, [&](int64_t at, int bytes) {
        slots.fetch(rows + (first + k) * carried.row_bytes + at, bytes);
        slots.next();
      });
    }
  });
  __syncwarp();
}

// From the slots to their places, a lane for each.
__device__ inline void put_come(const Carried& carried, const Choices& choices, int taker,
                                int takers) {
  const int lane = int(threadIdx.x) % 32;
  Slots slots(carried.row_bytes);
  bool any = false;
  each_group(choices, taker, takers, [&](int from, int first, int end) {
    int places[kGroup];
    find_places(choices, from, first, end, places);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      if (!__ballot_sync(kAll, places[k] >= 0)) continue;
      carried.each_piece(slots.piece, [&](int64_t at, int bytes) {
        barrier_wait(slots.full(), slots.turn & 1);
        if (places[k] >= 0)
          store_bulk(carried.rows + places[k] * carried.row_bytes + at, slots.at(), bytes);
        commit_stores();
        await_stores_read<1>();
        __syncwarp();
        if (lane == 0 && any) barrier_arrive(slots.empty(slots.before(1)));
        any = true;
        slots.next();
      });
    }
  });
  await_stores();
}

}  // namespace fkc::experts
