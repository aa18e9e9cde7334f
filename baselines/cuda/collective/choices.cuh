// SPDX-License-Identifier: Apache-2.0
// The choices of all ranks' tokens where they have come, and their sort by expert, rank and token.
#pragma once
#include "experts.cuh"
#include "runs.cuh"

namespace fkc::experts {

// The choices of all ranks when they have come, in the order of ranks and tokens, as a warp reads
// them: 128 at a time.
struct Choices {
  static constexpr int kAtOnce = 128;
  const Shape& s;
  const Ranks& ranks;
  int first, limit;  // of this rank's experts: the first one's number, how many there are
  Runs tokens, chunks;
  // `of_lane`: how many tokens the rank of this lane has.
  __device__ Choices(const Shape& shape, const Ranks& of, int of_lane)
      : s(shape),
        ranks(of),
        first(of.rank * shape.local),
        limit(max(0, min(shape.local, shape.experts - first))),
        tokens(of_lane, of.size),
        chunks((tokens.count * shape.top_k + kAtOnce - 1) / kAtOnce, of.size) {}
  __device__ Choices(const Shape& shape, const Ranks& of)
      : Choices(shape, of,
                int(threadIdx.x) % 32 < of.size
                    ? __ldcg(tokens_of(of, shape, of.rank) + threadIdx.x % 32)
                    : 0) {}
  // Among this rank's experts, or -1.
  __device__ int local(int expert) const {
    return unsigned(expert - first) < unsigned(limit) ? expert - first : -1;
  }
  // Four of a lane, as local(); where they are: whose, and which of that rank's.
  struct Four {
    int from, at, expert[4];
  };
  // Where they are, or null.
  __device__ int32_t* place(int chunk, Four& f) const {
    f.from = chunks.find(chunk, f.at);
    f.at = f.at * kAtOnce + int(threadIdx.x) % 32 * 4;
    return f.at < tokens.of(f.from) * s.top_k ? table_of(ranks, s, ranks.rank, f.from) + f.at
                                              : nullptr;
  }
  __device__ void name(Four& f, const int (&of)[4]) const {
    const int count = tokens.of(f.from) * s.top_k;
#pragma unroll
    for (int j = 0; j < 4; ++j) f.expert[j] = f.at + j < count ? local(of[j]) : -1;
  }
  __device__ Four load(int chunk) const {
    Four f;
    int4 four{-1, -1, -1, -1};
    if (const int32_t* at = place(chunk, f)) four = __ldcg(reinterpret_cast<const int4*>(at));
    name(f, {four.x, four.y, four.z, four.w});
    return f;
  }
};

// What the sort makes. Rows stand by segment: one for each local expert, or, of two parts, this
// rank's own rows of all experts before those of the other ranks.
struct Sorted {
  int32_t *source, *offsets;  // of a row; of a segment, and all rows behind them
  int32_t *row_ids, *count;   // or null
  uint32_t* placed;           // or null: zeros, so many of them
  int parts, zeros;
};

// A block finds the rows of a segment, in the order of ranks and tokens, and their choices' places.
// Each of its warps has a run of the choices: they count what they have found, and then know where
// each begins.
__device__ inline void sort_segment(const Sorted& to, const Choices& choices, int segment) {
  // Of a lane at once: a word of 32 bits. Such words that are kept until places are known. In the
  // emulation less, for small cases to have more.
  constexpr int kChunks = kDevice == FK_CUDA ? 8 : 2, kKept = kDevice == FK_CUDA ? 16 : 1;
  __shared__ unsigned kept[kKept][kThreads];
  __shared__ int below[kWarps], found[kWarps];
  const Shape& s = choices.s;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int each = (choices.chunks.all + kWarps - 1) / kWarps, begin = warp * each,
            end = min(begin + each, choices.chunks.all);
  // Which of a lane's choices in chunks from the first on are of the segment; those of segments
  // before it are added to `less`.
  const auto look = [&](int first, int& less) {
    int of[kChunks][4];  // segments
    unsigned hits = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const Choices::Four four = choices.load(first + c < end ? first + c : choices.chunks.all);
      const int others = to.parts > 1 && four.from != choices.ranks.rank ? s.local : 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) of[c][j] = four.expert[j] < 0 ? -1 : four.expert[j] + others;
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        less += unsigned(of[c][j]) < unsigned(segment);
        hits |= unsigned(of[c][j] == segment) << (c * 4 + j);
      }
    }
    return hits;
  };
  int less = 0, hit = 0;
  for (int first = begin, n = 0; first < end; first += kChunks, ++n) {
    const unsigned hits = look(first, less);
    if (n < kKept) kept[n][threadIdx.x] = hits;
    hit += __popc(hits);
  }
  less = __reduce_add_sync(kAll, less);
  hit = __reduce_add_sync(kAll, hit);
  __syncthreads();  // who is late still reads those of the segment before
  if (lane == 0) below[warp] = less, found[warp] = hit;
  __syncthreads();
  int start = 0, at = 0, all = 0;
  for (int w = 0; w < kWarps; ++w) {
    start += below[w];
    at += w < warp ? found[w] : 0;
    all += found[w];
  }
  at += start;
  if (threadIdx.x == 0) {
    to.offsets[segment] = start;
    if (segment + 1 == s.local * to.parts) {
      to.offsets[segment + 1] = start + all;
      if (to.count) *to.count = start + all;
    }
  }
  const unsigned lower = (1u << lane) - 1;
  for (int first = begin, n = 0; first < end; first += kChunks, ++n) {
    int again = 0;
    const unsigned hits = n < kKept ? kept[n][threadIdx.x] : look(first, again);
    if (__ballot_sync(kAll, hits != 0) == 0) continue;
    for (int c = 0; c < kChunks; ++c) {
      const unsigned four = hits >> (4 * c) & 15;
      if (__ballot_sync(kAll, four != 0) == 0) continue;
      int index;
      const int from = choices.chunks.find(first + c, index);
      index = index * Choices::kAtOnce + lane * 4;
      int place = at;
      for (int j = 0; j < 4; ++j) {
        const unsigned votes = __ballot_sync(kAll, four >> j & 1);
        place += __popc(votes & lower);
        at += __popc(votes);
      }
      for (int j = 0; j < 4; ++j) {
        if (!(four >> j & 1)) continue;
        to.source[place] = from * s.most * s.top_k + index + j;
        if (to.row_ids) to.row_ids[place] = place;
        places_of(choices.ranks, s, from)[index + j] = place;
        ++place;
      }
    }
  }
}

}  // namespace fkc::experts
