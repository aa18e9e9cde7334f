// SPDX-License-Identifier: Apache-2.0
#include "core/endpoint/logprobs.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fk {

TokenLogprobs logprobs_of(const std::vector<float>& logits, int64_t token, int64_t most) {
  TokenLogprobs out;
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  const double norm = largest + std::log(sum);
  out.own = static_cast<double>(logits[static_cast<size_t>(token)]) - norm;
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min<ptrdiff_t>(most, static_cast<ptrdiff_t>(order.size()));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int64_t a, int64_t b) {
    const float left = logits[static_cast<size_t>(a)], right = logits[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  });
  for (ptrdiff_t i = 0; i < count; ++i) {
    const int64_t each = order[static_cast<size_t>(i)];
    out.best.emplace_back(each, static_cast<double>(logits[static_cast<size_t>(each)]) - norm);
  }
  return out;
}

}  // namespace fk
