// SPDX-License-Identifier: Apache-2.0
// What the kernels of paged_attention share.
#pragma once
#include "../common.cuh"

namespace fkc {

constexpr float kLog2e = 1.4426950408889634F;

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
  const float* sinks;
  const int2* work;  // many rows: (request, first row) by blockIdx.x
  int width, page_size, page_shift, group,  // page_shift: -1 where page_size is no power of two
      heads, splits, window, causal;
  float scale, softcap;
};

// In decode, what the projection of one token has left: q, k and v, neither rotated nor in the cache.
struct FreshToken {
  const void* qkv;
  const float* table;  // [positions, head_dim]: cosines, then sines
  const int64_t *positions, *slots;
  int64_t token, k, v;  // in elements: from token to token; where the heads of k and v begin
};
inline AttentionCache cache_of(const fk_in* c) { return {c->data, c->strides[0], c->strides[1], c->strides[2]}; }

// Two neighbouring elements of both halves of a head, rotated in place.
template <class T> __device__ void rotate_two(uint32_t& low, uint32_t& high, float2 cosine, float2 sine) {
  const T* a = reinterpret_cast<const T*>(&low);
  const T* b = reinterpret_cast<const T*>(&high);
  const float u0 = to_float(a[0]), u1 = to_float(a[1]), w0 = to_float(b[0]), w1 = to_float(b[1]);
  low = pair<T>(u0 * cosine.x - w0 * sine.x, u1 * cosine.y - w1 * sine.y);
  high = pair<T>(w0 * cosine.x + u0 * sine.x, w1 * cosine.y + u1 * sine.y);
}

}  // namespace fkc
