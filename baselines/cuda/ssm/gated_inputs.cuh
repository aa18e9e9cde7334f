// SPDX-License-Identifier: Apache-2.0
// The inputs of gated_chunks.cuh in shared memory. Those of the next chunk are there as they are.
// Vectors of two chunks have their decays, and are terms of bfloat16.
#pragma once
#include "../parts/cp_async.cuh"
#include "../parts/op.cuh"
#include "../parts/shared_memory.cuh"
#include "../parts/split_bf16.cuh"
#include "chunk_parts.cuh"
#include "gated_pairs.cuh"

namespace fkc {

namespace gated {

constexpr int kColumns = 64, kThreads = 256, kSquare = kTokens * kTokens;

template <class T, class S, int kPieces>
struct GatedInputs {
  static constexpr int kWidth = 64 * kPieces, kHalf = kWidth / 2,
                       kTiles = kHalf / 8;                                 // keys of a warp
  static constexpr int kParts = std::is_same_v<T, __nv_bfloat16> ? 1 : 2;  // terms of v
  // Terms of (E q) and of the state in their product. Two are as good as an output in bfloat16. In
  // float16 an output whose terms cancel shows the third. (F k) always has all terms: the state is
  // float32 and keeps the errors of all chunks.
  static constexpr int kOutTerms = std::is_same_v<T, __nv_bfloat16> ? 2 : kTerms;
  using Vectors = Rows<kTokens, kWidth>;
  using Values = Rows<kTokens, kColumns>;
  // Two chunks have (E q), (F k), v and E_last. One has inputs as they are, and the sums of the
  // upper keys.
  static constexpr int kQ = 0, kK = kQ + kOutTerms * Vectors::kBytes,
                       kV = kK + kTerms * Vectors::kBytes, kLast = kV + kParts * Values::kBytes,
                       kBuffer = kLast + kWidth * 4;
  static constexpr int kRawQ = 2 * kBuffer, kRawK = kRawQ + kTokens * kWidth * 2,
                       kRawDecay = kRawK + kTokens * kWidth * 2,
                       kSums = kRawDecay + kTokens * kWidth * 4, kBytes = kSums + 4 * kSquare * 4;

  const MatrixState<T, S>& s;
  const float* pairs;
  char* shared;
  int head, column, begin, tokens;
  int lane = threadIdx.x % 32, slice = threadIdx.x / 32 % 4, upper = threadIdx.x / 128;

  __device__ uint32_t base() const { return shared_address(shared); }
  __device__ int count(int first) const { return max(0, min(kTokens, tokens - first)); }

  // Copies rows of `width` elements to shared memory, four at a time.
  template <class E>
  __device__ void fetch_rows(int to, const E* from, int64_t pitch, bool aligned, int there) const {
    constexpr int kFours = kWidth / 4;
    const bool whole = s.width % 4 == 0;
    for (int i = threadIdx.x; i < kTokens * kFours; i += kThreads) {
      const int token = i / kFours, d = i % kFours * 4;
      E* const at = reinterpret_cast<E*>(shared + to) + i * 4;
      const E* const its = from + token * pitch + d;
      if (token < there && d < s.width && aligned && whole) {
        if constexpr (sizeof(E) == 4)
          cp_async_16(shared_address(at), its, true);
        else
          cp_async_8(shared_address(at), its);
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k)
          at[k] = token < there && d + k < s.width ? its[k] : from_float<E>(0.F);
      }
    }
  }
  // Begins to fetch q, k and the decays of the chunk from `first` on.
  __device__ void fetch(int first) const {
    const int64_t t = int64_t(begin) + first;
    fetch_rows(kRawQ, s.q.at + t * s.q.token + head * s.q.head, s.q.token, s.q.aligned,
               count(first));
    fetch_rows(kRawK, s.k.at + t * s.k.token + head * s.k.head, s.k.token, s.k.aligned,
               count(first));
    const Decays& g = s.decays;
    const int64_t place = t * g.token + head * g.head;
    if (!g.at || g.width == 1) return;
    if (g.dtype == FK_F32)
      fetch_rows(kRawDecay, static_cast<const float*>(g.at) + place, g.token, g.aligned,
                 count(first));
    else
      fetch_rows(kRawDecay, static_cast<const __nv_bfloat16*>(g.at) + place, g.token, g.aligned,
                 count(first));
  }
  // The same for v, to its place in a buffer.
  __device__ void fetch_values(int buffer, int first) const {
    const int token = int(threadIdx.x) / 16, c = int(threadIdx.x) % 16 * 4;
    const bool there = token < count(first) && column + c < s.values;
    const int at = buffer + kV + Values::at(token, c / 8) + c % 8 * 2;
    float v[4] = {};
    if (there) s.v.load(int64_t(begin) + first + token, head, column + c, v);
    uint32_t terms[kParts][2];
    split(v[0], v[1], terms, 0);
    split(v[2], v[3], terms, 1);
#pragma unroll
    for (int p = 0; p < kParts; ++p)
      *reinterpret_cast<uint2*>(shared + at + p * Values::kBytes) =
          make_uint2(terms[p][0], terms[p][1]);
  }

  // f(i, decays of two neighbouring elements) for the tokens in their order, or from the last one
  // back.
  template <bool kBack, class F>
  __device__ void each_decay(int d, int first, F f) const {
    const Decays& g = s.decays;
    const bool own = g.at && g.width != 1;
    const float all = g.fixed ? g.fixed[head] : 0.F;
    const auto go = [&](auto read) {
#pragma unroll
      for (int n = 0; n < kTokens; ++n) {
        const int i = kBack ? kTokens - 1 - n : n;
        const float2 log = read(i);
        const float fixed = first + i < tokens ? all : 0.F;
        f(i, make_float2(__expf(log.x + fixed), __expf(log.y + fixed)));
      }
    };
    const char* const at = shared + kRawDecay;
    if (!own) {
      go([&](int i) {
        const int64_t t = int64_t(begin) + first + i;
        const float of_head = g.at && first + i < tokens
                                  ? Scalars{g.at, g.dtype}.of(t * g.token + head * g.head)
                                  : 0.F;
        return make_float2(of_head, of_head);
      });
    } else if (g.dtype == FK_F32) {
      go([&](int i) { return *reinterpret_cast<const float2*>(at + (i * kWidth + d) * 4); });
    } else if (g.dtype == FK_BF16) {
      go([&](int i) {
        const uint32_t two = *reinterpret_cast<const uint32_t*>(at + (i * kWidth + d) * 2);
        return make_float2(lower_of(two), upper_of(two));
      });
    } else {
      go([&](int i) {
        const __half* const two = reinterpret_cast<const __half*>(at) + i * kWidth + d;
        return make_float2(to_float(two[0]), to_float(two[1]));
      });
    }
  }
  template <int kCount>
  __device__ void store_terms(int to, int i, int d, float x, float y) const {
    uint32_t terms[kCount][1];
    split(x, y, terms, 0);
#pragma unroll
    for (int p = 0; p < kCount; ++p)
      *reinterpret_cast<uint32_t*>(shared + to + p * Vectors::kBytes + Vectors::at(i, d / 8) +
                                   d % 8 * 2) = terms[p][0];
  }
  // From inputs as they are: the lower warps make (E q) and E_last, the upper ones (F k).
  __device__ void prepare(int buffer, int first) const {
    const int d = int(threadIdx.x) % 128 * 2;
    if (d >= kWidth) return;
    float x = 1, y = 1;
    const T* const raw = reinterpret_cast<const T*>(shared + (upper ? kRawK : kRawQ)) + d;
    if (upper) {
      each_decay<true>(d, first, [&](int i, float2 decay) {
        store_terms<kTerms>(buffer + kK, i, d, to_float(raw[i * kWidth]) * x,
                            to_float(raw[i * kWidth + 1]) * y);
        x *= decay.x, y *= decay.y;
      });
    } else {
      each_decay<false>(d, first, [&](int i, float2 decay) {
        x *= decay.x, y *= decay.y;
        store_terms<kOutTerms>(buffer + kQ, i, d, to_float(raw[i * kWidth]) * x,
                               to_float(raw[i * kWidth + 1]) * y);
      });
      *reinterpret_cast<float2*>(shared + buffer + kLast + d * 4) = make_float2(x, y);
    }
  }
};

}  // namespace gated

}  // namespace fkc
