// SPDX-License-Identifier: Apache-2.0
// The next token of a row of logits: a full sort of the row, then prefixes of it.
#pragma once
#include <numeric>

#include "op.hpp"

namespace fk::reference {

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

// The first of `count` masses at which the running share of their sum reaches (or exceeds) `share`;
// the last one if none does.
inline int64_t share_prefix(const double* mass, int64_t count, double share, bool exceed = false) {
  const double wanted = share * std::accumulate(mass, mass + count, 0.0);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += mass[i];
    if (exceed ? sum > wanted : sum >= wanted) return i;
  }
  return count - 1;
}

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

// Writes the token of row b; `args` has the fields of sample_tokens but for the logits.
template <class Forward, class View>
void sample_row(const Forward& args, const View* logits, int64_t b, const SampleRows& row) {
  load(logits, offset(logits, b), row.size, row.logits);
  const auto number = [&](const fk_in* view) { return value(data<float>(view)[b]); };
  data<int64_t>(args.tokens)[b] =
      pick_token(row, number(args.temperature), index<int32_t>(args.top_k, b), number(args.top_p),
                 number(args.uniform));
}

}  // namespace fk::reference
