// SPDX-License-Identifier: Apache-2.0
// The choice of experts by groups, for one token, in grouped_topk and in the routers of layers. The
// best groups are kept, and the best experts are chosen from them.
#pragma once
#include "op.hpp"

namespace fk::reference {

// The router's parameters: `count` experts are chosen, from `kept_groups` groups.
struct GroupedChoice {
  int64_t experts, count, groups, kept_groups;
  bool sigmoid, renormalize;
  double factor;              // of all weights
  const fk_in* bias_or_null;  // added to the scores for the choice, not for the weights
};

// Rows of scratch (op.hpp) for choose_grouped().
struct GroupedChoiceRows {
  double *scores, *choice, *groups;
  GroupedChoiceRows(Scratch& s, int64_t experts, int64_t group_count)
      : scores(s.take(experts)), choice(s.take(experts)), groups(s.take(group_count)) {}
};

// The index of the largest value, the lowest at ties. Replaces the value by -infinity.
inline int64_t take_best(double* values, int64_t count) {
  const int64_t best = std::max_element(values, values + count) - values;
  values[best] = -std::numeric_limits<double>::infinity();
  return best;
}

// Writes weights[count] and ids[count], best first.
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
    // With a bias a group's score is the sum of its best two, else its best.
    row.groups[g] = c.bias_or_null && size > 1 ? first + second : first;
  }
  // take_best() marks the kept groups with -infinity; the experts of all others are excluded.
  for (int64_t i = 0; i < c.kept_groups; ++i) take_best(row.groups, c.groups);
  for (int64_t g = 0; g < c.groups; ++g)
    if (row.groups[g] != low) std::fill_n(row.choice + g * size, size, low);

  double sum = 0;
  for (int64_t i = 0; i < c.count; ++i) {
    ids[i] = static_cast<int32_t>(take_best(row.choice, c.experts));
    sum += weights[i] = row.scores[ids[i]];
  }
  // no division by 0
  for (int64_t i = 0; i < c.count; ++i) weights[i] *= c.factor / (c.renormalize ? sum + 1e-20 : 1);
}

// Refuses numbers of groups and experts that allow no choice.
inline void need_groups(int64_t experts, int64_t count, int64_t groups, int64_t kept) {
  if (experts % groups) throw unsupported{"num_experts is not a multiple of num_expert_group"};
  if (kept > groups) throw unsupported{"topk_group is more than num_expert_group"};
  if (count > kept * (experts / groups)) throw unsupported{"top_k is more than the groups hold"};
}

}  // namespace fk::reference
