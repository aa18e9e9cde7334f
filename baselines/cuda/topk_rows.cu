// SPDX-License-Identifier: Apache-2.0
// topk_rows: the largest elements of rows, in order. A key (sort_key.cuh) has an element and its
// place, so no two are equal. For a few, a warp finds one key after the other. Otherwise a block
// finds the last chosen key digit by digit from the highest one, and sorts the keys from there on.
#include "fk/ops/topk_rows.h"
#include "parts/op.cuh"
#include "parts/shared_memory.cuh"
#include "parts/sort_key.cuh"

namespace {
using namespace fkc;
using Key = unsigned long long;

constexpr int kFewThreads = 128, kFewMost = 4, kDigit = 256, kRoomMost = 4096;

struct Chosen {
  int32_t *ids, *rows;
  int size, top_k;
  template <class T>
  __device__ void write(const T* x, T* values, int64_t row, int k, Key key) const {
    const int64_t at = row * top_k + k;
    const int place = int(index_of_key(key));
    values[at] = x[row * size + place];
    ids[at] = place, rows[at] = int32_t(row * size + place);
  }
};

template <class T>
__global__ void __launch_bounds__(kFewThreads)
    topk_of_few(const T* x, T* values, Chosen to, int64_t rows) {
  wait_for_inputs();
  const int64_t row = int64_t(blockIdx.x) * (kFewThreads / 32) + threadIdx.x / 32;
  const int lane = int(threadIdx.x) % 32;
  if (row >= rows) return;
  Key below = ~Key{0};
  for (int k = 0; k < to.top_k; ++k) {
    Key best = 0;
    for (int i = lane; i < to.size; i += 32) {
      const Key key = sort_key(to_float(x[row * to.size + i]), uint32_t(i));
      if (key < below && key > best) best = key;
    }
    below = warp_max(best);
    if (lane == 0) to.write(x, values, row, k, below);
  }
}

// Sorts `room` keys, a power of two, the largest first. By a block.
__device__ void sort_descending(Key* keys, int room) {
  for (int run = 2; run <= room; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      for (int i = int(threadIdx.x); i < room; i += int(blockDim.x)) {
        const int other = i ^ step;
        const Key a = keys[i], b = keys[other];
        if (other > i && (a < b) == ((i & run) == 0)) keys[i] = b, keys[other] = a;
      }
      __syncthreads();
    }
  }
}

// The key of rank `count` among all keys, or a smaller number which exceeds the next key.
template <class KeyOf>
__device__ Key last_chosen(int size, int count, KeyOf key_of) {
  __shared__ int counts[kDigit], left, whole;
  __shared__ Key found;
  if (threadIdx.x == 0) found = 0, left = count, whole = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    for (int d = int(threadIdx.x); d < kDigit; d += int(blockDim.x)) counts[d] = 0;
    __syncthreads();
    const Key above = found;
    const int wanted = left;
    for (int i = int(threadIdx.x); i < size; i += int(blockDim.x)) {
      const Key key = key_of(i);
      if (shift == 56 || key >> (shift + 8) == above >> (shift + 8))
        atomicAdd(&counts[key >> shift & 255], 1);
    }
    __syncthreads();
    for (int d = int(threadIdx.x); d < kDigit; d += int(blockDim.x)) {
      int larger = 0;
      for (int e = kDigit - 1; e > d; --e) larger += counts[e];
      if (larger >= wanted || larger + counts[d] < wanted) continue;
      found = above | Key(d) << shift, left = wanted - larger, whole = larger + counts[d] == wanted;
    }
    __syncthreads();
    if (whole) break;
  }
  return found;
}

// A block for each row.
template <class T>
__global__ void __launch_bounds__(kManyThreads)
    topk_rows(const T* x, T* values, Chosen to, int room) {
  auto* const keys = reinterpret_cast<Key*>(dynamic_shared());
  __shared__ int next;
  wait_for_inputs();
  const int64_t row = blockIdx.x;
  const auto key_of = [&](int i) { return sort_key(to_float(x[row * to.size + i]), uint32_t(i)); };
  for (int i = int(threadIdx.x); i < room; i += int(blockDim.x)) keys[i] = 0;
  if (threadIdx.x == 0) next = 0;
  const Key last = last_chosen(to.size, to.top_k, key_of);
  for (int i = int(threadIdx.x); i < to.size; i += int(blockDim.x))
    if (const Key key = key_of(i); key >= last) keys[atomicAdd(&next, 1)] = key;
  __syncthreads();
  sort_descending(keys, room);
  for (int k = int(threadIdx.x); k < to.top_k; k += int(blockDim.x))
    to.write(x, values, row, k, keys[k]);
}

struct TopkRows : Base<fk::topk_rows> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need(init.top_k <= init.size, "top_k: at most size");
    need(init.top_k <= kRoomMost, "top_k: at most 4096");
    need(FK_DTYPE(max.values) == FK_DTYPE(max.x), "values: the dtype of x only");
    need(init.size < INT32_MAX && max.x->shape[0] <= INT32_MAX / init.size,
         "x: fewer than 2^31 elements");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.x->shape[0];
    if (!rows) return;
    const Chosen to{fk::data<int32_t>(a.ids), fk::data<int32_t>(a.rows), int(init.size),
                    int(init.top_k)};
    int room = 2;
    while (room < init.top_k) room *= 2;
    with_float(a.x, [&](auto type) {
      using T = decltype(type);
      if (init.top_k <= kFewMost)
        launch(topk_of_few<T>, unsigned(cdiv(rows, kFewThreads / 32)), kFewThreads, 0, ctx,
               fk::data<T>(a.x), fk::data<T>(a.values), to, rows);
      else
        launch(topk_rows<T>, unsigned(rows), kManyThreads, size_t(room) * sizeof(Key), ctx,
               fk::data<T>(a.x), fk::data<T>(a.values), to, room);
    });
  }
};
FK_OP(topk_rows, TopkRows);

}  // namespace
