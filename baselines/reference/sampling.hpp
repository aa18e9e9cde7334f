// SPDX-License-Identifier: Apache-2.0
// Sampling of the next token from a row of logits: sorts the whole row, then keeps prefixes of it
// (top_k, then top_p).
#pragma once
#include <numeric>

#include "op.hpp"

namespace fk::reference {

// Rows of scratch (op.hpp) for pick_token(). `order` has tokens from the largest logit down, `mass`
// their unnormalised probabilities.
struct SampleRows {
  double *logits, *mass;
  int64_t* order;
  int64_t size;
  SampleRows(Scratch& s, int64_t vocabulary)
      : logits(s.take(vocabulary)),
        mass(s.take(vocabulary)),
        order(reinterpret_cast<int64_t*>(s.take(vocabulary))),
        size(vocabulary) {}
};

// The first index at which the running sum of masses reaches `share` of the total, or exceeds it if
// `exceed`. The last index if none does.
inline int64_t share_prefix(const double* mass, int64_t count, double share, bool exceed = false) {
  const double wanted = share * std::accumulate(mass, mass + count, 0.0);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += mass[i];
    if (exceed ? sum > wanted : sum >= wanted) return i;
  }
  return count - 1;
}

// The token for a uniform number in [0, 1). A temperature of 0 takes the largest logit.
inline int64_t pick_token(const SampleRows& row, double temperature, int64_t top_k, double top_p,
                          double uniform) {
  const double* top = std::max_element(row.logits, row.logits + row.size);
  if (temperature <= 0) return top - row.logits;
  std::iota(row.order, row.order + row.size, int64_t{0});
  std::sort(row.order, row.order + row.size, [&](int64_t a, int64_t b) {
    return row.logits[a] != row.logits[b] ? row.logits[a] > row.logits[b] : a < b;
  });
  int64_t kept = top_k > 0 ? std::min(top_k, row.size) : row.size;
  for (int64_t i = 0; i < kept; ++i)
    row.mass[i] = std::exp((row.logits[row.order[i]] - *top) / temperature);
  if (top_p < 1) kept = share_prefix(row.mass, kept, top_p) + 1;
  return row.order[share_prefix(row.mass, kept, uniform, true)];
}

// Samples the token of row b and stores it in args.tokens. `args` has the fields of sample_tokens
// but its logits.
template <class Forward, class View>
void sample_row(const Forward& args, const View* logits, int64_t b, const SampleRows& row) {
  load(logits, offset(logits, b), row.size, row.logits);
  const auto number = [&](const fk_in* view) { return value(data<float>(view)[b]); };
  data<int64_t>(args.tokens)[b] =
      pick_token(row, number(args.temperature), index<int32_t>(args.top_k, b), number(args.top_p),
                 number(args.uniform));
}

}  // namespace fk::reference
