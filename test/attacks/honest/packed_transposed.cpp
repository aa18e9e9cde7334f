// SPDX-License-Identifier: Apache-2.0
// honest: the weight transposed into packed memory; sums go along columns
#include "../linear.hpp"

namespace {

struct Honest : attack::Linear {
  using Linear::Linear;
  const float* packed = nullptr;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    Linear::supports(init, weights, max, need);
    need.packed = 4 * init.in_features * init.out_features;
  }
  void prepare(const op::forward&, const fk_memory& memory) {
    packed = static_cast<const float*>(memory.packed);
    if (memory.packed_ready) return;
    std::vector<float> row(static_cast<size_t>(init.in_features));
    for (int64_t n = 0; n < init.out_features; ++n) {
      fk::load(weights.weight, n * init.in_features, init.in_features, row.data());
      for (int64_t k = 0; k < init.in_features; ++k)
        static_cast<float*>(memory.packed)[k * init.out_features + n] = row[static_cast<size_t>(k)];
    }
  }
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<float> x(static_cast<size_t>(init.in_features)),
        sums(static_cast<size_t>(init.out_features)), bias(sums.size(), 0);
    if (weights.bias.or_null) fk::load(weights.bias.or_null, 0, init.out_features, bias.data());
    for (int64_t m = 0; m < args.x->shape[0]; ++m) {
      fk::load(args.x, m * args.x->strides[0], init.in_features, x.data());
      sums = bias;
      for (int64_t k = 0; k < init.in_features; ++k)
        for (int64_t n = 0; n < init.out_features; ++n)
          sums[static_cast<size_t>(n)] +=
              x[static_cast<size_t>(k)] * packed[k * init.out_features + n];
      fk::store(args.out, m * init.out_features, init.out_features, sums.data());
    }
  }
};
FK_OP(linear, Honest);

}  // namespace
FK_PLUGIN("packed_transposed", "0");
