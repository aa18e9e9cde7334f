// SPDX-License-Identifier: Apache-2.0
// Rows and keys of flash_attention2.cuh in images with the same number of queries and of keys, with
// biases and masks.
#pragma once
#include "flash_attention2.cuh"

namespace fkc {

// Elements of q, k, v or out: strides from image to image, and so on.
struct ImageView {
  void* data;
  int64_t image, token, head;
};
inline ImageView image_view(const fk_in* view) {
  return {const_cast<void*>(static_cast<const void*>(view->data)), view->strides[0],
          view->strides[1], view->strides[2]};
}

// Numbers which are added to scores, in rows of one for each key.
template <class T>
struct AddedScores {
  Parameter<T> from;
  int count, rows;  // image b has matrix b % count, query m has row m % rows of a head
  int pairs;        // rows have an even length, so that pairs are loaded at once
  // Adds those of keys `at` and `at + 1`; the last key may be the first one.
  __device__ void add(int64_t at, bool both, float& a, float& b) const {
    if (pairs) {
      float c, d;
      if (from.narrow)
        load_floats(from.narrow + at, c, d);
      else
        load_floats(from.wide + at, c, d);
      a += c, b += d;
      return;
    }
    a += from.one(at);
    if (both) b += from.one(at + 1);
  }
  __device__ bool there() const { return from.narrow || from.wide; }
};
template <class T>
AddedScores<T> added_scores(const fk_in* view, bool of_heads) {
  if (!view) return {};
  const int64_t keys = view->shape[view->ndim - 1];
  return {parameter<T>(view), int(view->shape[0]), int(view->shape[of_heads ? 2 : 1]),
          keys % 2 == 0};
}

template <class T>
struct ImageParams {
  ImageView q, k, v, out;
  AddedScores<T> bias, mask;  // [count, heads, rows, keys]; [count, rows, keys]
  const float* head_scale;
  int queries, keys, heads, group, width;
  int tiles;  // of an image
  float scale;
};

template <class T, bool kAdded>
struct ImageRows {
  using Element = T;
  using Params = ImageParams<T>;
  static constexpr bool kFewKeys = true;

  const ImageParams<T>& p;
  int64_t image;
  int head, rows, first, begin = 0, end, width;
  float factor;              // of a product
  int64_t bias[2], mask[2];  // where those of this thread's rows begin

  __device__ explicit ImageRows(const ImageParams<T>& params)
      : p(params), rows(p.queries), end(p.keys), width(p.width), bias{}, mask{} {
    const int unit = int(blockIdx.x) / p.tiles;
    first = int(blockIdx.x) % p.tiles * 16 * kWarps, head = unit % p.heads, image = unit / p.heads;
    factor = p.head_scale ? p.head_scale[head] * p.scale : p.scale;
    if (fabsf(factor) < 1e-20F) factor = 1e-20F;  // start() divides by it
  }
  __device__ const T* q(int row) const { return at(p.q, row, head); }
  __device__ const T* k(int key) const { return at(p.k, key, head / p.group); }
  __device__ const T* v(int key) const { return at(p.v, key, head / p.group); }
  __device__ T* out(int row) const { return at(p.out, row, head); }
  __device__ void look(int row0, int row1) {
    if (!kAdded) return;
    const int own[2] = {row0, row1};
    for (int h = 0; h < 2; ++h) {
      if (p.bias.there())
        bias[h] = ((image % p.bias.count * p.heads + head) * p.queries + own[h]) * p.keys;
      if (p.mask.there())
        mask[h] = (image % p.mask.count * p.mask.rows + own[h] % p.mask.rows) * p.keys;
    }
  }
  // Biases come before the products, so that loads overlap. They are divided by the factor of
  // products, and stay finite if they were finite.
  __device__ void start(float (&s)[kKeys / 8][4], int tile) const {
    const float inverse = 1.F / factor;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float a = 0, b = 0;
        const int key = key_of(tile, n);
        if (kAdded && key < end) {
          if (p.bias.there()) p.bias.add(bias[h] + key, key + 1 < end, a, b);
          if (p.mask.there()) p.mask.add(mask[h] + key, key + 1 < end, a, b);
          a = divided(a, inverse), b = divided(b, inverse);
        }
        s[n][2 * h] = a, s[n][2 * h + 1] = b;
      }
  }
  __device__ void finish(float (&s)[kKeys / 8][4], int tile) const {
    const float scale = factor * kLog2e;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        s[n][j] = key_of(tile, n) + (j & 1) < end ? s[n][j] * scale : -INFINITY;
  }
  __device__ float sink(int) const { return -INFINITY; }

 private:
  static __device__ int key_of(int tile, int n) {
    return tile * kKeys + n * 8 + int(threadIdx.x) % 4 * 2;
  }
  static __device__ float divided(float v, float inverse) {
    constexpr float kMost = 1e36F;
    return fabsf(v) == INFINITY ? v * inverse : fminf(fmaxf(v * inverse, -kMost), kMost);
  }
  __device__ T* at(const ImageView& view, int64_t token, int of) const {
    return static_cast<T*>(view.data) + image * view.image + token * view.token + of * view.head;
  }
};

}  // namespace fkc
