// SPDX-License-Identifier: Apache-2.0
// wrong: out is written as its transpose
// hint: transposed
// says: transposed: rows and columns are exchanged
// next: The values are right at wrong positions. Check index and strides of loads and stores.
#include "../attacks/linear.hpp"

namespace {

struct Transposed : attack::Linear {
  using Linear::Linear;
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    rows(args, [](const float* x, const float* w, int64_t k) {
      float sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += x[i] * w[i];
      return sum;
    });
    const int64_t m = args.x->shape[0], n = init.out_features;
    std::vector<float> all(static_cast<size_t>(m * n)), turned(all);
    fk::load(args.out, 0, m * n, all.data());
    for (int64_t i = 0; i < m * n; ++i)
      turned[static_cast<size_t>(i % n * m + i / n)] = all[static_cast<size_t>(i)];
    fk::store(args.out, 0, m * n, turned.data());
  }
};
FK_OP(linear, Transposed);

}  // namespace
FK_PLUGIN("wrong_transposed", "0");
