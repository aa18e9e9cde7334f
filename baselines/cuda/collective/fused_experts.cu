// SPDX-License-Identifier: Apache-2.0
// fused_moe_ep: experts begin with rows which have arrived, and answers go back as tiles end.
// Choices are sent and sorted first (choices.cuh). Then there are two grouped GEMMs
// (moe/grouped_gemm.cuh), whose blocks have three warps for communication:
//   rows_in      warps 9-11 send rows of x to the ranks of their experts, and copy arriving rows to their
//                places; the producer warp waits only for the rows of its tile
//   answers_out  warps 9-11 send every tile of answers, when it is written, to the rank which asked
// With many tokens, this rank's own rows are segments of their own. On the way in they are
// multiplied first, while the others travel. On the way out they come last, while the others'
// answers travel. At the end every rank adds the answers to its own tokens.
//
// There is no deadlock. Sending rows waits for nothing, placing rows waits for other ranks' sends,
// tiles wait for placed rows, and answers wait for tiles. A rank writes to another rank's memory
// only after the other rank's choices have arrived. These say that the other rank is done with the
// call before.
#include "../moe/grouped_gemm.cuh"
#include "../parts/op.cuh"
#include "../parts/peer.cuh"
#include "../parts/pipeline.cuh"
#include "choices.cuh"
#include "fk/ops/fused_moe_ep.h"

namespace {
using namespace fkc;
using namespace fkc::experts;
using grouped::Loads;
using grouped::Ring;
using grouped::Tiles;

__global__ void __launch_bounds__(experts::kThreads) send_choices(const int32_t* topk_ids, int tokens, Shape s, const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  State* mine = state_of(ranks, ranks.rank);
  const uint32_t call = *static_cast<volatile uint32_t*>(&mine->call);
  wait_for_all(ranks, mine->taken, call);
  push_table(topk_ids, tokens, int(blockIdx.x), int(gridDim.x), s, ranks);
  if (!last_block(&mine->blocks[0])) return;
  tell_all(ranks, &State::sent, call + 1);
  if (threadIdx.x == 0) mine->call = call + 1;
}

// A block for each segment.
__global__ void __launch_bounds__(experts::kThreads) sort_choices(Sorted to, Shape s, const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  const State* mine = state_of(ranks, ranks.rank);
  wait_for_all(ranks, mine->sent, mine->call);
  for (int i = int(blockIdx.x * experts::kThreads + threadIdx.x); i < to.zeros; i += int(gridDim.x) * experts::kThreads) to.placed[i] = 0;
  sort_segment(to, Choices(s, ranks), int(blockIdx.x));
}

// After all answers have arrived, adds them.
template <class T>
__global__ void __launch_bounds__(experts::kThreads) add_answers(const int32_t* topk_ids, const float* weights, uint4* out, int tokens, Shape s, const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  State* mine = state_of(ranks, ranks.rank);
  wait_for_all(ranks, mine->answered, mine->call);
  const char* rows = ranks.at[ranks.rank] + s.answers_at;
  for (int t = int(blockIdx.x); t < tokens; t += int(gridDim.x)) {
    for (int i = int(threadIdx.x); i < s.words; i += experts::kThreads) {
      Elements<T, uint4> sum{};
      for (int k = 0; k < s.top_k; ++k) {
        const int expert = topk_ids[t * s.top_k + k];
        if (expert < 0 || expert >= s.experts) continue;
        const float weight = weights[t * s.top_k + k];
        const auto answer = Elements<T, uint4>::of(__ldcg(reinterpret_cast<const uint4*>(rows + (int64_t(t) * s.top_k + k) * s.row_bytes) + i));
#pragma unroll
        for (int e = 0; e < Elements<T, uint4>::kCount; ++e) sum.at[e] += weight * answer.at[e];
      }
      out[int64_t(t) * s.words + i] = sum.word();
    }
  }
  if (last_block(&mine->blocks[1])) tell_all(ranks, &State::taken, mine->call);
}

constexpr int kBlock = grouped::kThreads, kMultiply = 256, kTalkingWarps = 3;  // threads of a block; threads which multiply
constexpr int kRegistersMultiply = 208, kRegistersElse = 88;
constexpr int kBucket = 64;   // sorted rows with one counter of placed rows
constexpr int kInFlight = 4;  // loads of 16 bytes of a thread

struct Rows {
  const uint4* x;
  const int32_t* topk_ids;
  uint4* sorted;
  Sorted places;
  int tokens;  // tokens of this rank
};

// One of the communication warps: number `warp` of `warps` on this rank.
struct Talker {
  int warp = int(blockIdx.x) * kTalkingWarps + int(threadIdx.x) / 32 - (kMultiply / 32 + 1), warps = int(gridDim.x) * kTalkingWarps, lane = int(threadIdx.x) % 32;
};

// Words of a row, with several loads of a lane in flight.
__device__ inline void load_few(uint4 (&few)[kInFlight], const uint4* row, int first, int words) {
#pragma unroll
  for (int k = 0; k < kInFlight; ++k)
    if (first + k * 32 < words) few[k] = __ldcg(row + first + k * 32);
}
__device__ inline void store_few(uint4* row, const uint4 (&few)[kInFlight], int first, int words) {
#pragma unroll
  for (int k = 0; k < kInFlight; ++k)
    if (first + k * 32 < words) row[first + k * 32] = few[k];
}

__device__ void send_rows(const Rows& rows, const Shape& s, const Ranks& ranks, uint32_t call) {
  const Talker talker;
  const int me = ranks.rank;
  for (int group = talker.warp; group * s.group < rows.tokens; group += talker.warps) {
    for (int t = group * s.group; t < min(rows.tokens, (group + 1) * s.group); ++t) {
      const unsigned wanted = ranks_of_token(s, rows.topk_ids + t * s.top_k) & ~(1u << me);
      if (wanted == 0) continue;
      for (int i = talker.lane; i < s.words; i += 32 * kInFlight) {
        uint4 few[kInFlight];
        load_few(few, rows.x + int64_t(t) * s.words, i, s.words);
        for (int j = 1; j < ranks.size; ++j) {
          const int r = me + j < ranks.size ? me + j : me + j - ranks.size;
          if (wanted >> r & 1) store_few(box_of<uint4>(ranks, s, r, me, t), few, i, s.words);
        }
      }
    }
    __syncwarp();
    if (talker.lane >= ranks.size || talker.lane == me) continue;
    __threadfence_system();
    store_release(arrived(ranks, talker.lane, me, group), call);
  }
}

// Places this rank's own rows first, then the others' group by group as they arrive.
__device__ void place_rows(const Rows& rows, const Shape& s, const Ranks& ranks, uint32_t call) {
  const Talker talker;
  const int me = ranks.rank, groups = (s.most + s.group - 1) / s.group;
  const int32_t* tokens = tokens_of(ranks, s, me);
  for (int job = talker.warp; job < groups * ranks.size; job += talker.warps) {
    const int later = job - groups, group = later < 0 ? job : later / (ranks.size - 1);
    const int from = later < 0 ? me : (me + 1 + later % (ranks.size - 1)) % ranks.size;
    const int first = group * s.group, end = min(__ldcg(tokens + from), first + s.group);
    if (first >= end) continue;
    if (from != me && talker.lane == 0) wait_until(arrived(ranks, me, from, group), call);
    __syncwarp();
    const int32_t *ids = table_of(ranks, s, me, from), *places = places_of(ranks, s, from);
    for (int t = first; t < end; ++t) {
      // Each lane has the place of a choice.
      const int choice = t * s.top_k + talker.lane, expert = talker.lane < s.top_k ? __ldcg(ids + choice) : -1;
      const int place = expert >= 0 && expert < s.experts && s.rank_of(expert) == me ? __ldcg(places + choice) : -1;
      const unsigned here = __ballot_sync(0xffffffffu, place >= 0);
      if (here == 0) continue;
      const uint4* row = from == me ? rows.x + int64_t(t) * s.words : box_of<uint4>(ranks, s, me, from, t);
      for (int base = 0; base < s.words; base += 32 * kInFlight) {
        uint4 few[kInFlight];
        load_few(few, row, base + talker.lane, s.words);
        for (unsigned left = here; left; left &= left - 1)
          store_few(rows.sorted + int64_t(__shfl_sync(0xffffffffu, place, __ffs(int(left)) - 1)) * s.words, few, base + talker.lane, s.words);
      }
      __syncwarp();
      __threadfence();
      if (place >= 0) atomicAdd(rows.places.placed + place / kBucket, 1u);
    }
  }
}

// By one thread: waits until the rows of a tile are in their places.
__device__ inline void wait_for_rows(const Rows& rows, int all, int first, int count) {
  for (int b = first / kBucket; b * kBucket < first + count; ++b) wait_until(rows.places.placed + b, uint32_t(min(kBucket, all - b * kBucket)));
  fence_proxy_async();  // threads wrote them, the copy engine reads them
}

// silu(x @ gate^T) * (x @ up^T) of sorted rows in flight.
template <class T, int kMost>
__global__ void __launch_bounds__(kBlock, 1)
    rows_in(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weight, const grouped::Arguments<T> a, const __grid_constant__ Rows rows,
            const __grid_constant__ Shape s, const __grid_constant__ Ranks ranks) {
  char* const shared = dynamic_shared();
  Ring<kMost> ring{(shared_address(shared) + 1023) & ~1023U};
  Tiles<kMost> tile{a.offsets, a.segments, a.first, (a.n + grouped::kRows / 2 - 1) / (grouped::kRows / 2)};
  if (threadIdx.x == 0) {
    ring.init(8);
    fence_mbarrier_init();
  }
  inputs_then_next();
  __syncthreads();
  if (threadIdx.x < kMultiply) {
    warpgroup_reg_alloc<kRegistersMultiply>();
    for (int at = blockIdx.x; tile.find(at); at += gridDim.x) grouped::multiply_tile<T, true, Ring<kMost>::kStep>(ring, a, tile);
    return;
  }
  warpgroup_reg_dealloc<kRegistersElse>();
  if (threadIdx.x == kMultiply) {
    const int all = __ldcg(a.offsets + a.segments);
    const auto wait = [&](const auto& t) { wait_for_rows(rows, all, t.row, t.rows); };
    Loads<T, true, kMost, 1, decltype(wait)> loads{x, weight, a, ring, tile, wait};
    load_first_weights(loads);
    load_rest(loads);
  } else if (threadIdx.x >= kMultiply + 32) {
    const uint32_t call = *static_cast<volatile uint32_t*>(&state_of(ranks, ranks.rank)->call);
    send_rows(rows, s, ranks, call);
    place_rows(rows, s, ranks, call);
  }
}

// Sends a tile of answers, by the communication warps: every row to the rank which asked.
template <class T, int kMost>
__device__ void send_tile(const grouped::Arguments<T>& a, const Tiles<kMost>& tile, const int32_t* source, const Shape& s, const Ranks& ranks) {
  constexpr int kWords = grouped::kRows * int(sizeof(T)) / 16;  // of a row of a tile
  const int first = tile.column * kWords, words = min(kWords, s.words - first), per_rank = s.most * s.top_k;
  const int thread = int(threadIdx.x) - kMultiply - 32, threads = kTalkingWarps * 32;
  const uint4* answers = reinterpret_cast<const uint4*>(a.out);
  for (int i = thread; i < tile.rows * kWords; i += threads * kInFlight) {
    uint4 few[kInFlight];
    const auto each = [&](auto f) {
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        const int row = (i + k * threads) / kWords, word = (i + k * threads) % kWords;
        if (row < tile.rows && word < words) f(few[k], tile.row + row, first + word);
      }
    };
    each([&](uint4& v, int row, int word) { v = __ldcg(answers + int64_t(row) * s.words + word); });
    each([&](const uint4& v, int row, int word) {
      const int asked = __ldcg(source + row), to = asked / per_rank;
      reinterpret_cast<uint4*>(ranks.at[to] + s.answers_at + (asked % per_rank) * s.row_bytes)[word] = v;
    });
  }
}

// x @ weight^T of sorted rows. Answers go to the ranks which asked.
template <class T, int kMost>
__global__ void __launch_bounds__(kBlock, 1)
    answers_out(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weight, const grouped::Arguments<T> a, const int32_t* source,
                const __grid_constant__ Shape s, const __grid_constant__ Ranks ranks) {
  char* const shared = dynamic_shared();
  Ring<kMost> ring{(shared_address(shared) + 1023) & ~1023U};
  const uint32_t written = ring.base + 128, sent = ring.base + 136;  // barriers of a tile: the warps which multiply arrive at `written`, the communication warps at `sent`
  Tiles<kMost> tile{a.offsets, a.segments, a.first, (a.n + grouped::kRows - 1) / grouped::kRows};
  if (threadIdx.x == 0) {
    ring.init(8);
    mbarrier_init(written, kMultiply / 32);
    mbarrier_init(sent, kTalkingWarps);
    fence_mbarrier_init();
  }
  __syncthreads();
  int round = 0;
  if (threadIdx.x < kMultiply) {
    warpgroup_reg_alloc<kRegistersMultiply>();
    for (int at = blockIdx.x; tile.find(at); at += gridDim.x, ++round) {
      grouped::multiply_tile<T, false, Ring<kMost>::kStep>(ring, a, tile);
      if (round > 0) mbarrier_wait(sent, (round - 1) & 1);  // or the communication warps would miss a phase of `written`
      __syncwarp();
      if (threadIdx.x % 32 == 0) mbarrier_arrive(written);
    }
  } else {
    warpgroup_reg_dealloc<kRegistersElse>();
    if (threadIdx.x == kMultiply) {
      Loads<T, false, kMost> loads{x, weight, a, ring, tile, {}};
      load_first_weights(loads);
      inputs_then_next();
      load_rest(loads);
    } else if (threadIdx.x >= kMultiply + 32) {
      grid_dependency_wait();
      for (int at = blockIdx.x; tile.find(at); at += gridDim.x, ++round) {
        mbarrier_wait(written, round & 1);
        send_tile<T, kMost>(a, tile, source, s, ranks);
        __syncwarp();
        if (threadIdx.x % 32 == 0) mbarrier_arrive(sent);
      }
    }
  }
  __syncwarp();
  State* mine = state_of(ranks, ranks.rank);
  if (last_block(&mine->blocks[0])) tell_all(ranks, &State::answered, mine->call);
}

struct FusedMoeEp : Base<fk::fused_moe_ep> {
  using Base::Base;
  // Scratch memory: rows in the order of experts, which become answers; hidden rows; tables.
  struct Scratch {
    int64_t rows, sorted, hidden, source, offsets, placed, bytes;
    int parts, buckets;
  };
  static Shape shape(const op::init& init) {
    Shape s = shape_of(init, 2, init.hidden_size * 2, 16);
    s.answers_at += init.comm->size * s.most * s.row_bytes;
    return s;
  }
  static int64_t shared_bytes(const op::init& init) {
    const Shape s = shape(init);
    return s.answers_at + int64_t(s.most) * s.top_k * s.row_bytes;
  }
  static Scratch scratch_of(const op::init& init) {
    const Shape s = shape(init);
    Scratch b{};
    // This rank's own rows are a part of their own if they fill tiles.
    b.parts = int64_t(s.most) * s.top_k >= init.num_experts * kBucket * 2 ? 2 : 1;
    b.rows = init.comm->size * init.max_tokens_per_rank * std::min<int64_t>(init.top_k, s.local);
    b.buckets = int(cdiv(b.rows, kBucket));
    b.hidden = b.sorted + whole(b.rows * init.hidden_size * 2);
    b.source = b.hidden + whole(b.rows * init.intermediate_size * 2);
    b.offsets = b.source + whole(b.rows * 4);
    b.placed = b.offsets + whole((b.parts * s.local + 1) * 4);
    b.bytes = b.placed + whole(b.buckets * 4);
    return b;
  }
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& wants) {
    need_ranks(init.comm);
    need_16bit(max.x);
    need(FK_DTYPE(weights.w13) == FK_DTYPE(max.x) && FK_DTYPE(weights.w2) == FK_DTYPE(max.x), "w13, w2: the dtype of x only");
    need(init.hidden_size % 8 == 0 && init.intermediate_size % 8 == 0, "hidden_size, intermediate_size: multiples of 8 only");
    need(init.hidden_size < 1 << 20 && init.intermediate_size < 1 << 20, "hidden_size, intermediate_size: below 2^20 only");
    need(init.top_k <= 32, "top_k: up to 32");
    need(init.max_tokens_per_rank <= kTokensMost, "max_tokens_per_rank: up to 32768");
    need(init.max_tokens_per_rank * init.comm->size * init.top_k < (int64_t{1} << 31), "fewer choices than 2^31 only");
    need(shared_bytes(init) <= int64_t{1} << 30, "at most 1 GiB between ranks");
    const int64_t local = cdiv(init.num_experts, init.comm->size), rows = init.comm->size * init.max_tokens_per_rank * std::min<int64_t>(init.top_k, local);
    if (const char* why = grouped::refusal(rows, local, init.hidden_size, init.intermediate_size)) throw fk::unsupported{why};
    wants.scratch = scratch_of(init).bytes;
  }
  void prepare(const op::forward& max, const fk_memory&) {
    const bool bf16 = FK_DTYPE(max.x) == FK_BF16;
    const int64_t local = cdiv(init.num_experts, init.comm->size);
    shared.emplace(init.comm, shared_bytes(init));
    w13 = grouped::map_of_gated(weights.w13->data, local, init.intermediate_size, init.hidden_size, bf16);
    w2 = grouped::map_of(weights.w2->data, local * init.hidden_size, init.intermediate_size, bf16, grouped::kRows);
    processors = sm_count();
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      // Room for 1.5 times the average rows of an expert, so that few experts need more than one
      // tile.
      const int64_t typical = cdiv(a.x->shape[0] * init.comm->size * init.top_k * 3, init.num_experts * 2);
      if (typical <= 64) go<T, 64>(a, ctx);
      else if (typical <= 128) go<T, 128>(a, ctx);
      else go<T, 256>(a, ctx);
    });
  }

 private:
  template <class T, int kMost> void go(const op::forward& a, const fk_ctx& ctx) const {
    const Shape s = shape(init);
    const Scratch b = scratch_of(init);
    const Ranks& ranks = shared->ranks();
    char* const at = static_cast<char*>(ctx.scratch);
    const auto table = [&](int64_t offset) { return reinterpret_cast<int32_t*>(at + offset); };
    const int tokens = int(a.x->shape[0]), segments = b.parts * s.local, channels = int(init.hidden_size), hidden = int(init.intermediate_size);
    const auto *ids = fk::data<int32_t>(a.topk_ids);
    const auto* x = fk::data<uint4>(a.x);
    T *sorted = reinterpret_cast<T*>(at + b.sorted), *activated = reinterpret_cast<T*>(at + b.hidden);
    const Sorted places{table(b.source), table(b.offsets), nullptr, nullptr, reinterpret_cast<uint32_t*>(at + b.placed), b.parts, b.buckets};
    launch(send_choices, blocks_for(cdiv(int64_t(tokens) * s.top_k, experts::kThreads)), experts::kThreads, 0, ctx, ids, tokens, s, ranks);
    launch(sort_choices, unsigned(segments), experts::kThreads, 0, ctx, places, s, ranks);
    product(rows_in<T, kMost>, kMost, ctx, grouped::map_of(sorted, b.rows, channels, std::is_same_v<T, __nv_bfloat16>, grouped::step_of(kMost)), w13,
            grouped::Arguments<T>{activated, places.offsets, segments, s.local, 0, hidden, channels},
            Rows{x, ids, reinterpret_cast<uint4*>(sorted), places, tokens}, s, ranks);
    // The second part, other ranks' rows, comes first.
    product(answers_out<T, kMost>, kMost, ctx, grouped::map_of(activated, b.rows, hidden, std::is_same_v<T, __nv_bfloat16>, grouped::step_of(kMost)), w2,
            grouped::Arguments<T>{sorted, places.offsets, segments, s.local, segments - s.local, channels, hidden}, places.source, s, ranks);
    launch(add_answers<T>, blocks_for(tokens), experts::kThreads, 0, ctx, ids, fk::data<float>(a.topk_weights), fk::data<uint4>(a.out), tokens, s, ranks);
  }
  // All blocks have to run at once.
  template <class... P, class... A> void product(void (*kernel)(P...), int most, const fk_ctx& ctx, A... arguments) const {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, grouped::shared_bytes(most)), "shared memory");
    launch(kernel, unsigned(processors), kBlock, size_t(grouped::shared_bytes(most)), ctx, arguments...);
  }
  std::optional<Shared<op>> shared;
  CUtensorMap w13{}, w2{};
  int processors = 0;
};
FK_OP(fused_moe_ep, FusedMoeEp);

}  // namespace
