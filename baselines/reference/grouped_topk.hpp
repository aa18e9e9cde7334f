// SPDX-License-Identifier: Apache-2.0
// The choice of experts by groups, for one token: grouped_topk, and the router inside of layers.
#pragma once
#include "op.hpp"

namespace fk::reference {

struct GroupedChoice {
  int64_t experts, count, groups, kept_groups;
  bool sigmoid, renormalize;
  double factor;
  const fk_in* bias_or_null;
};

struct GroupedChoiceRows {
  double *scores, *choice, *groups;
  GroupedChoiceRows(Scratch& s, int64_t experts, int64_t group_count)
      : scores(s.take(experts)), choice(s.take(experts)), groups(s.take(group_count)) {}
};

// The best that is left, which is then taken; ties to the lowest index.
inline int64_t take_best(double* values, int64_t count) {
  const int64_t best = std::max_element(values, values + count) - values;
  values[best] = -std::numeric_limits<double>::infinity();
  return best;
}

// weights[count] and ids[count], best first.
inline void choose_grouped(const GroupedChoice& c, const double* logits,
                           const GroupedChoiceRows& row, double* weights, int32_t* ids) {
  const double low = -std::numeric_limits<double>::infinity();
  const double top = *std::max_element(logits, logits + c.experts);
  double all = 0;
  for (int64_t e = 0; e < c.experts; ++e) all += std::exp(logits[e] - top);
  for (int64_t e = 0; e < c.experts; ++e)
    row.scores[e] = c.sigmoid ? 1 / (1 + std::exp(-logits[e])) : std::exp(logits[e] - top) / all;
  std::copy_n(row.scores, c.experts, row.choice);
  if (c.bias_or_null) add_scaled(c.bias_or_null, 0, c.experts, 1, row.choice);

  const int64_t size = c.experts / c.groups;
  for (int64_t g = 0; g < c.groups; ++g) {
    double first = low, second = low;
    for (int64_t e = g * size; e < (g + 1) * size; ++e) {
      second = std::max(second, std::min(first, row.choice[e]));
      first = std::max(first, row.choice[e]);
    }
    row.groups[g] = c.bias_or_null && size > 1 ? first + second : first;
  }
  for (int64_t i = 0; i < c.kept_groups; ++i) take_best(row.groups, c.groups);
  for (int64_t g = 0; g < c.groups; ++g)
    if (row.groups[g] != low) std::fill_n(row.choice + g * size, size, low);

  double sum = 0;
  for (int64_t i = 0; i < c.count; ++i) {
    ids[i] = static_cast<int32_t>(take_best(row.choice, c.experts));
    sum += weights[i] = row.scores[ids[i]];
  }
  for (int64_t i = 0; i < c.count; ++i) weights[i] *= c.factor / (c.renormalize ? sum + 1e-20 : 1);
}

// Refuses numbers of groups and experts that leave no choice.
inline void need_groups(int64_t experts, int64_t count, int64_t groups, int64_t kept) {
  if (experts % groups) throw unsupported{"num_experts is not a multiple of num_expert_group"};
  if (kept > groups) throw unsupported{"topk_group is more than num_expert_group"};
  if (count > kept * (experts / groups)) throw unsupported{"top_k is more than the groups hold"};
}

}  // namespace fk::reference
