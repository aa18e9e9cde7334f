// SPDX-License-Identifier: Apache-2.0
// The choices of all ranks' tokens after their arrival, and their sort by expert, rank and token.
#pragma once
#include "experts.cuh"
#include "runs.cuh"

namespace fkc::experts {

// The arrived choices of all ranks, in the order of ranks and tokens. A warp reads 128 at a time.
struct Choices {
  static constexpr int kAtOnce = 128;
  const Shape& s;
  const Ranks& ranks;
  int first, limit;  // this rank's experts: the first one, and their number
  Runs tokens, chunks;
  // `of_lane`: the number of tokens of the rank with the number of this lane.
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
  // The number among this rank's experts, or -1.
  __device__ int local(int expert) const {
    return unsigned(expert - first) < unsigned(limit) ? expert - first : -1;
  }
  // Four choices of a lane, as local(); their rank, and their number among that rank's choices.
  struct Four {
    int from, at, expert[4];
  };
  // The place of the four choices, or null.
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

// The results of the sort. Rows stand by segment. There is a segment for each local expert. With
// two parts, this rank's own rows of all experts stand before the rows of the other ranks.
struct Sorted {
  int32_t *source, *offsets;  // source of a row; first row of a segment, and the number of rows at the end
  int32_t *row_ids, *count;   // or null
  uint32_t* placed;           // or null: `zeros` words to clear
  int parts, zeros;
};

// Chunks of choices which a lane reads at once, and words of hits which a block keeps. The
// emulation has fewer, so that small cases have several of them.
constexpr int kSortChunks = kDevice == FK_CUDA ? 8 : 2, kSortKept = kDevice == FK_CUDA ? 16 : 1;

// A bit for each of a lane's choices of the segment, in kSortChunks chunks from `first` on. Adds
// the number of choices of earlier segments to `less`.
__device__ inline unsigned find_choices(const Sorted& to, const Choices& choices, int segment,
                                        int first, int end, int& less) {
  int of[kSortChunks][4];  // segments
  unsigned hits = 0;
#pragma unroll
  for (int c = 0; c < kSortChunks; ++c) {
    const Choices::Four four = choices.load(first + c < end ? first + c : choices.chunks.all);
    const int others = to.parts > 1 && four.from != choices.ranks.rank ? choices.s.local : 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) of[c][j] = four.expert[j] < 0 ? -1 : four.expert[j] + others;
  }
#pragma unroll
  for (int c = 0; c < kSortChunks; ++c) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      less += unsigned(of[c][j]) < unsigned(segment);
      hits |= unsigned(of[c][j] == segment) << (c * 4 + j);
    }
  }
  return hits;
}

// A block finds the rows of a segment, in the order of ranks and tokens, and the places of their
// choices. Each of its warps has a run of the choices. Warps first count their hits, and then know
// their first place.
__device__ inline void sort_segment(const Sorted& to, const Choices& choices, int segment) {
  constexpr int kChunks = kSortChunks, kKept = kSortKept;
  __shared__ unsigned kept[kKept][kThreads];
  __shared__ int below[kWarps], found[kWarps];
  const Shape& s = choices.s;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int each = (choices.chunks.all + kWarps - 1) / kWarps, begin = warp * each,
            end = min(begin + each, choices.chunks.all);
  int less = 0, hit = 0;
  for (int first = begin, n = 0; first < end; first += kChunks, ++n) {
    const unsigned hits = find_choices(to, choices, segment, first, end, less);
    if (n < kKept) kept[n][threadIdx.x] = hits;
    hit += __popc(hits);
  }
  less = __reduce_add_sync(kAll, less);
  hit = __reduce_add_sync(kAll, hit);
  __syncthreads();  // late warps still read the counts of the previous segment
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
    const unsigned hits =
        n < kKept ? kept[n][threadIdx.x] : find_choices(to, choices, segment, first, end, again);
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
