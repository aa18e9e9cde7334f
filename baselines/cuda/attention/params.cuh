// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels of paged_attention.
#pragma once
#include <type_traits>

namespace fkc {

struct AttentionCache {
  const void* data;
  int64_t page, slot, head;  // strides in elements
};
struct AttentionParams {
  const void* q;
  void* out;
  int64_t q_token, q_head, out_token, out_head;
  AttentionCache k, v;
  const int32_t *tables, *starts, *lengths;
  const int32_t* key_starts;  // without tables: the first key of each request, in rows
  const float* sinks;
  const int2* work;                         // many rows: (request, first row) by blockIdx.x
  int width, page_size, page_shift, group,  // page_shift: -1 where page_size is no power of two
      heads, head_dim, splits, window, causal;
  float scale, softcap;
};

// In decode, the projection of one token: q, k and v, neither rotated nor in the cache.
struct FreshToken {
  const void* qkv;
  const float* table;  // [positions, head_dim]: cosines, then sines
  const int64_t *positions, *slots;
  int64_t token, k, v;  // in elements: from token to token; where the heads of k and v begin
};
// f(D) with the narrowest width of tiles which holds a head of at least kLeast elements.
template <int kLeast = 1, class F>
void with_width(int64_t head_dim, F f) {
  const auto fits = [&](auto width) {
    constexpr int kD = decltype(width)::value;
    if (kD < kLeast || head_dim > kD) return false;
    if constexpr (kD >= kLeast) f(width);
    return true;
  };
  static_cast<void>(
      fits(std::integral_constant<int, 32>{}) || fits(std::integral_constant<int, 64>{}) ||
      fits(std::integral_constant<int, 80>{}) || fits(std::integral_constant<int, 96>{}) ||
      fits(std::integral_constant<int, 128>{}) || fits(std::integral_constant<int, 192>{}) ||
      fits(std::integral_constant<int, 256>{}));
}

inline AttentionCache cache_of(const fk_in* c) {
  return {c->data, c->strides[0], c->strides[1], c->strides[2]};
}

}  // namespace fkc
