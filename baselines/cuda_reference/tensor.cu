// SPDX-License-Identifier: Apache-2.0
// add, scaled_add, linear_combination, modulate, gather_rows, scatter_rows, concat, concat_channels, prepend_rows, select_rows, transpose: one thread per element.
#include "common.cuh"
#include "fk/ops/add.h"
#include "fk/ops/concat.h"
#include "fk/ops/concat_channels.h"
#include "fk/ops/gather_rows.h"
#include "fk/ops/linear_combination.h"
#include "fk/ops/modulate.h"
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
struct ConcatChannels : Plain<fk::concat_channels> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref out = ref(a.out);
    const int64_t all = init.size;
    int64_t first = 0;
    for (int64_t n = 0; n < init.num_parts; ++n) {
      const Ref part = ref(a.x->at[n]);
      const int64_t width = init.sizes->at[n], begin = first;
      for_each(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) { store(out, i / width * all + begin + i % width, load(part, i)); });
      first += width;
    }
  }
};
struct LinearCombination : Plain<fk::linear_combination> {
  using Plain::Plain;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) { need.scratch = fk_numel(max.x->at[0]) * 8; }
  // The sum is rounded once, so it waits in double for all its terms.
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref out = ref(a.out);
    const int64_t count = fk_numel(a.x->at[0]), terms = init.num_terms;
    const float* coefficients = fk::data<float>(a.coefficients);
    auto* sums = static_cast<double*>(ctx.scratch);
    for_each(count, ctx, [=] __device__(int64_t i) { sums[i] = double(coefficients[0]) * load(out, i); });
    for (int64_t k = 0; k < terms; ++k) {
      const Ref x = ref(a.x->at[k]);
      for_each(count, ctx, [=] __device__(int64_t i) {
        sums[i] += double(coefficients[k + 1]) * load(x, i);
        if (k + 1 == terms) store(out, i, sums[i]);
      });
    }
  }
};
struct Modulate : Plain<fk::modulate> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), scale = ref(a.scale), shift = ref(a.shift), out = ref(a.out);
    const int64_t width = init.size, rows = a.x->shape[1];
    const double offset = init.offset;
    for_each(a.x->shape[0] * rows * width, ctx, [=] __device__(int64_t i) {
      const int64_t c = i % width, b = i / width / rows;
      const double factor = offset + load_or(scale, scale.at(b) + c, 0);
      store(out, i, load(x, i) * factor + load_or(shift, shift.at(b) + c, 0));
    });
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
FK_OP(concat_channels, ConcatChannels);
FK_OP(linear_combination, LinearCombination);
FK_OP(modulate, Modulate);
FK_OP(transpose, Transpose);

}  // namespace
