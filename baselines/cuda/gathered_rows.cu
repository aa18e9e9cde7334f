// SPDX-License-Identifier: Apache-2.0
// select_rows, prepend_rows, concat_channels: copies of rows of images, sixteen bytes per thread.
#define FK_PREPEND_ROWS_EDITION 2
#include "fk/ops/concat_channels.h"
#include "fk/ops/prepend_rows.h"
#include "fk/ops/select_rows.h"
#include "parts/each_item.cuh"
#include "parts/op.cuh"

namespace {
using namespace fkc;

int64_t element_bytes(const fk_in* view) { return view->dtype.bits / 8; }
// The number of vectors of 16 bytes, or a refusal.
int whole_vectors(int64_t bytes) {
  need(bytes % 16 == 0, "rows: multiples of 16 bytes only");
  return int(bytes / 16);
}

// Rows of images. Steps are vectors, from image to image and from row to row.
struct Images {
  const uint4* data;
  int64_t image, row;
};
Images images(const fk_in* view) {
  if (!view) return {};
  const int64_t bytes = element_bytes(view), axes = view->ndim;
  return {fk::data<uint4>(view), axes > 2 ? view->strides[0] * bytes / 16 : 0,
          view->strides[axes - 2] * bytes / 16};
}

struct Select {
  Images x;
  const int32_t* rows;
  uint4* out;
  int64_t count;  // rows of an image of out
  int vectors;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / vectors, b = row / count;
    out[i] = x.data[b * x.image + rows[row - b * count] * x.row + i % vectors];
  }
};

struct Prepend {
  Images before, x;
  uint4* out;
  int64_t first, count;  // rows of an image before x; all of them
  int vectors;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / vectors, b = row / count, at = row - b * count;
    const uint4* const from = at < first ? before.data + b * before.image + at * before.row
                                         : x.data + b * x.image + (at - first) * x.row;
    out[i] = from[i % vectors];
  }
};

constexpr int kPartsMost = 8;
struct SideBySide {
  const uint4* x[kPartsMost];
  int first[kPartsMost + 1];  // the vector of a row of out where a part begins
  uint4* out;
  int vectors;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / vectors;
    const int column = int(i - row * vectors);
    const uint4* from = x[0];
    int begin = 0, end = first[1];
#pragma unroll
    for (int n = 1; n < kPartsMost; ++n)
      if (column >= first[n]) from = x[n], begin = first[n], end = first[n + 1];
    out[i] = from[row * (end - begin) + column - begin];
  }
};

struct SelectRows : Base<fk::select_rows> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    whole_vectors(init.size * element_bytes(max.x));
    need_aligned(max.x);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int vectors = whole_vectors(init.size * element_bytes(a.x));
    for_each_item(a.out->shape[0] * a.out->shape[1] * vectors, ctx,
                  Select{images(a.x), fk::data<int32_t>(a.rows), fk::data<uint4>(a.out),
                         a.out->shape[1], vectors});
  }
};
struct PrependRows : Base<fk::prepend_rows> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    whole_vectors(init.size * element_bytes(max.x));
    need(!max.prefix.or_null || !max.before.or_null, "before: not together with prefix");
    need(!init.prefix_rows || max.prefix.or_null || max.before.or_null,
         "prefix_rows: without prefix and before it is 0");
    for (const fk_in* view : {max.prefix.or_null, max.before.or_null, max.x}) {
      if (!view) continue;
      need_aligned(view);
      need(FK_DTYPE(view) == FK_DTYPE(max.out), "prefix, before and x: the dtype of out only");
    }
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const fk_in *prefix = a.prefix.or_null, *own = a.before.or_null;
    const int64_t first = prefix ? prefix->shape[0] : own ? own->shape[1] : 0;
    const int vectors = whole_vectors(init.size * element_bytes(a.x));
    for_each_item(a.out->shape[0] * a.out->shape[1] * vectors, ctx,
                  Prepend{images(prefix ? prefix : own), images(a.x), fk::data<uint4>(a.out), first,
                          a.out->shape[1], vectors});
  }
};
struct ConcatChannels : Base<fk::concat_channels> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need(init.num_parts <= kPartsMost, "num_parts: up to 8");
    for (int64_t n = 0; n < init.num_parts; ++n) {
      whole_vectors(init.sizes->at[n] * element_bytes(max.x->at[n]));
      need(FK_DTYPE(max.x->at[n]) == FK_DTYPE(max.out), "x: the dtype of out only");
    }
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    SideBySide all{{}, {}, fk::data<uint4>(a.out), 0};
    for (int64_t n = 0; n < kPartsMost; ++n) {
      all.first[n] = all.vectors;
      if (n >= init.num_parts) continue;
      all.x[n] = fk::data<uint4>(a.x->at[n]);
      all.vectors += whole_vectors(init.sizes->at[n] * element_bytes(a.x->at[n]));
    }
    all.first[kPartsMost] = all.vectors;
    for_each_item(a.out->shape[0] * all.vectors, ctx, all);
  }
};
FK_OP(concat_channels, ConcatChannels);
FK_OP(prepend_rows, PrependRows);
FK_OP(select_rows, SelectRows);

}  // namespace
