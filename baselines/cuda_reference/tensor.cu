// SPDX-License-Identifier: Apache-2.0
// add, scaled_add, gather_rows, scatter_rows, concat, prepend_rows, select_rows, transpose: one thread per element.
#include "common.cuh"
#include "fk/ops/add.h"
#include "fk/ops/concat.h"
#include "fk/ops/gather_rows.h"
#define FK_PREPEND_ROWS_EDITION 2
#include "fk/ops/prepend_rows.h"
#define FK_SCALED_ADD_EDITION 2
#include "fk/ops/scaled_add.h"
#include "fk/ops/scatter_rows.h"
#include "fk/ops/select_rows.h"
#include "fk/ops/transpose.h"

namespace {
using namespace fkr;

struct Add : Plain<fk::add> {
  using Plain::Plain;
  void forward(const op::forward& f, const fk_ctx& ctx) {
    const Ref a = ref(f.a), b = ref(f.b), out = ref(f.out);
    for_each(f.a->shape[0] * init.size, ctx, [=] __device__(int64_t i) { store(out, i, load(a, i) + load(b, i)); });
  }
};
struct ScaledAdd : Plain<fk::scaled_add> {
  using Plain::Plain;
  void forward(const op::forward& f, const fk_ctx& ctx) {
    const Ref x = ref(f.x), y = ref(f.y), out = ref(f.out), gate = ref(f.gate);
    const double scale = init.scale;
    const int64_t width = init.size, rows = f.y->shape[0], each = init.gate_rows, gates = f.gate.or_null ? f.gate.or_null->shape[0] : 1;
    for_each(rows * width, ctx, [=] __device__(int64_t i) {
      const double factor = scale * load_or(gate, (each ? i / width / each % gates : 0) * width + i % width, 1);
      store(out, i, load_or(x, i, 0) + factor * load(y, i));
    });
  }
};
struct GatherRows : Plain<fk::gather_rows> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const auto* rows = fk::data<int32_t>(a.rows);
    const int64_t width = init.size;
    for_each(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) { store(out, i, load(x, rows[i / width] * width + i % width)); });
  }
};
struct ScatterRows : Plain<fk::scatter_rows> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const auto* rows = fk::data<int32_t>(a.rows);
    const int64_t width = init.size;
    for_each(a.rows->shape[0] * width, ctx, [=] __device__(int64_t i) { store(out, rows[i / width] * width + i % width, load(x, i)); });
  }
};
struct Concat : Plain<fk::concat> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref out = ref(a.out);
    const int64_t width = init.size, parts = init.num_parts;
    for (int64_t n = 0; n < parts; ++n) {
      const Ref part = ref(a.x->at[n]);
      for_each(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) {
        store(out, (i / width * parts + n) * width + i % width, load(part, i));
      });
    }
  }
};
struct PrependRows : Plain<fk::prepend_rows> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (init.prefix_rows > 0 && !max.prefix.or_null && !max.before.or_null)
      throw fk::unsupported{"prefix_rows: without prefix and before it is 0"};
    if (max.prefix.or_null && max.before.or_null) throw fk::unsupported{"before: not together with prefix"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref prefix = ref(a.prefix), own = ref(a.before), x = ref(a.x), out = ref(a.out);
    const int64_t before = a.prefix.or_null ? a.prefix.or_null->shape[0] : a.before.or_null ? a.before.or_null->shape[1] : 0;
    const int64_t width = init.size, all = before + a.x->shape[1];
    for_each(a.x->shape[0] * all * width, ctx, [=] __device__(int64_t i) {
      const int64_t c = i % width, t = i / width % all, b = i / width / all;
      if (t >= before) store(out, i, load(x, x.at(b, t - before) + c));
      else store(out, i, own.data ? load(own, own.at(b, t) + c) : load(prefix, t * width + c));
    });
  }
};
FK_OP(prepend_rows, PrependRows);
struct SelectRows : Plain<fk::select_rows> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const auto* rows = fk::data<int32_t>(a.rows);
    const int64_t width = init.size, taken = a.rows->shape[0];
    for_each(a.x->shape[0] * taken * width, ctx, [=] __device__(int64_t i) {
      store(out, i, load(x, x.at(i / width / taken, rows[i / width % taken]) + i % width));
    });
  }
};
FK_OP(select_rows, SelectRows);
struct Transpose : Plain<fk::transpose> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const int64_t channels = a.x->shape[1], positions = a.x->shape[2];
    for_each(a.x->shape[0] * positions * channels, ctx, [=] __device__(int64_t i) {
      const int64_t c = i % channels, t = i / channels % positions, b = i / channels / positions;
      store(out, i, load(x, (b * channels + c) * positions + t));
    });
  }
};
FK_OP(add, Add);
FK_OP(scaled_add, ScaledAdd);
FK_OP(gather_rows, GatherRows);
FK_OP(scatter_rows, ScatterRows);
FK_OP(concat, Concat);
FK_OP(transpose, Transpose);

}  // namespace
