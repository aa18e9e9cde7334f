// SPDX-License-Identifier: Apache-2.0
// Boxes of segmentation: one thread for each element of the output.
#include "common.cuh"
#include "fk/ops/axial_bias.h"
#include "fk/ops/box_deltas.h"
#include "fk/ops/box_embedding.h"

namespace {
using namespace fkr;

struct BoxEmbedding : Plain<fk::box_embedding> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (init.size % 8) throw fk::unsupported{"size: a multiple of 8"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref out = ref(a.out);
    const float* boxes = fk::data<float>(a.boxes);
    const int64_t size = init.size, each = init.size / 4;
    const double scale = init.scale, temperature = init.temperature;
    for_each(a.boxes->shape[0] * size, ctx, [=] __device__(int64_t i) {
      const int64_t c = i % size, part = c / each, number = part == 0 ? 1 : part == 1 ? 0 : part;
      const double angle = boxes[4 * (i / size) + number] * scale / pow(temperature, double(c % each / 2 * 2) / double(each));
      store(out, i, c % 2 ? cos(angle) : sin(angle));
    });
  }
};
FK_OP(box_embedding, BoxEmbedding);

struct BoxDeltas : Plain<fk::box_deltas> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const float* boxes = fk::data<float>(a.boxes);
    for (int axis = 0; axis < 2; ++axis) {
      const Ref out = ref(axis ? a.rows : a.columns);
      const int64_t count = init.image_size->at[axis ? 0 : 1];
      for_each(a.boxes->shape[0] * count * 2, ctx, [=] __device__(int64_t i) {
        const float* box = boxes + 4 * (i / (2 * count));
        const double edge = box[axis] + (i % 2 ? 0.5 : -0.5) * box[axis + 2];
        const double d = 8 * (double(i / 2 % count) / double(count) - edge);
        store(out, i, copysign(log2(fabs(d) + 1) / 3, d));
      });
    }
  }
};
FK_OP(box_deltas, BoxDeltas);

struct AxialBias : Plain<fk::axial_bias> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref rows = ref(a.rows), columns = ref(a.columns), out = ref(a.out);
    const int64_t high = a.rows->shape[2], wide = a.columns->shape[2], queries = a.rows->shape[1], all = a.out->shape[2], heads = init.num_heads, first = init.prefix_rows;
    for_each(fk_numel(fk_as_in(a.out)), ctx, [=] __device__(int64_t i) {
      const int64_t x = i % wide, y = i / wide % high, m = i / (wide * high) % all, h = i / (wide * high * all) % heads, b = i / (wide * high * all * heads);
      const int64_t query = b * queries + m - first;
      store(out, i, m < first ? 0.0 : load(rows, (query * high + y) * heads + h) + load(columns, (query * wide + x) * heads + h));
    });
  }
};
FK_OP(axial_bias, AxialBias);

}  // namespace
