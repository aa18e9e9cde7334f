// SPDX-License-Identifier: Apache-2.0
// Attention over a paged cache as a step of an op: its plan, and the choice of kernel. Query heads
// with one key head are packed into rows. Row r of a request is query token r / group, head r %
// group of the group.
#pragma once
#include <type_traits>

#include "../parts/op.cuh"
#include "flash_decoding.cuh"
#include "paged_rows.cuh"

namespace fkc {

constexpr int kDecodeThreads = 32 * decode::kWarps;
constexpr int64_t kLongContext = 8192;  // from here on a cluster of 16 blocks pays

// The number of blocks with one context, a power of two: enough for one block per multiprocessor,
// or two for pairs.
inline int splits_of(int64_t blocks, int64_t max_seq_len) {
  const int64_t most = max_seq_len < kLongContext ? decode::kSplitsMax / 2 : decode::kSplitsMax;
  int64_t splits = 1;
  while (splits < most && blocks * splits * 2 <= (splits == 1 ? 264 : 132) && splits * 2 * decode::kKeys * decode::kWarps <= max_seq_len) splits *= 2;
  return int(splits);
}
inline int shift_of(int64_t page_size) {
  int shift = 0;
  while (int64_t{1} << shift < page_size) ++shift;
  return int64_t{1} << shift == page_size ? shift : -1;
}

// With up to 16 rows per request, a step is bound by reading the cache. It needs no plan, and a
// graph can capture it.
inline bool is_few(int64_t group, int64_t max_query_len) { return max_query_len * group <= 16; }
inline int64_t most_few(int64_t group) { return 16 / group; }
// Widths of heads of flash_decoding.cuh and of paged tiles of flash_attention3.cuh. For all others
// flash_attention2.cuh computes decode, too.
inline bool has_decode(int64_t head_dim) { return head_dim == 64 || head_dim == 128; }

inline int64_t attention_plan_bytes(int64_t tokens, int64_t requests, int64_t group) { return (cdiv(tokens * group, 64) + requests) * 8; }
// Writes (request, first row) of every tile of 64 rows, the longest contexts first. A request without
// rows has a tile too, so the bytes of a captured decode step stay. Returns the bytes of the plan.
inline int64_t plan_attention(const int32_t* starts, int64_t requests, int64_t group, void* blob) {
  auto* work = static_cast<int2*>(blob);
  int64_t n = 0;
  for (int64_t b = 0; b < requests; ++b)
    for (int64_t row = 0; row == 0 || row < (starts[b + 1] - starts[b]) * group; row += 64) work[n++] = int2{int(b), int(row)};
  std::reverse(work, work + n);
  return n * 8;
}

// Tiles of 64 rows, as plan_attention() lists them. Heads have at least kLeast elements.
template <class T, int kLeast = 1> void attend_rows(AttentionParams p, int64_t kv_heads, int64_t head_dim, const fk_ctx& ctx) {
  p.head_dim = int(head_dim), p.work = static_cast<const int2*>(ctx.plan);
  const dim3 grid(unsigned(ctx.plan_bytes / 8), unsigned(kv_heads));
  if (!grid.x) return;
  with_width<kLeast>(head_dim, [&](auto size) {
    constexpr int kD = decltype(size)::value, kBytes = kFlashAttention2Bytes<T, kD>;
    const auto kernel = flash_attention2<PagedRows<T>, kD>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    launch(kernel, grid, kThreads, size_t(kBytes), ctx, p);
  });
}

// Few rows: `p` has all but splits and page_shift. A step with max_query_len 1 may bring `fresh`.
template <class T>
void attend(AttentionParams p, int64_t requests, int64_t kv_heads, int64_t head_dim, int64_t max_query_len, int64_t max_seq_len, const fk_ctx& ctx,
            const FreshToken* fresh = nullptr) {
  p.page_shift = shift_of(p.page_size);
  p.splits = splits_of(requests * kv_heads, max_seq_len);
  const dim3 grid(unsigned(requests), unsigned(kv_heads), unsigned(p.splits));
  if (!grid.x) return;
  const auto go = [&](auto kernel, int threads, int bytes, auto... more) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    // Clusters above eight blocks are not portable to other chips.
    if (p.splits > 8) cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    launch_clusters(kernel, dim3(1, 1, unsigned(p.splits)), grid, unsigned(threads), size_t(bytes), ctx, p, more...);
  };
  const auto sized = [&](auto size) {
    constexpr int kD = decltype(size)::value;
    const bool small = max_query_len * p.group <= 8;
    if (fresh && small) go(flash_decode<T, kD, 1, true>, kDecodeThreads, FlashDecoding<T, kD, 1, true>::kBytes, *fresh);
    else if (fresh) go(flash_decode<T, kD, 2, true>, kDecodeThreads, FlashDecoding<T, kD, 2, true>::kBytes, *fresh);
    else if (small) go(flash_decode<T, kD, 1, false>, kDecodeThreads, FlashDecoding<T, kD, 1, false>::kBytes, FreshToken{});
    else go(flash_decode<T, kD, 2, false>, kDecodeThreads, FlashDecoding<T, kD, 2, false>::kBytes, FreshToken{});
  };
  if (head_dim == 64) sized(std::integral_constant<int, 64>{});
  else sized(std::integral_constant<int, 128>{});
}

}  // namespace fkc
