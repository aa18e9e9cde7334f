// SPDX-License-Identifier: Apache-2.0
#include "core/cases/received.hpp"

#include "core/base/error.hpp"

namespace fk {

std::vector<int64_t> received_rows(const ResolvedCase& resolved,
                                   const std::function<Tensor(const ResolvedCase&)>& choices) {
  if (!resolved.contract->comm())
    fail(resolved.contract->where, "rows come from ranks, and it has no communicator");
  const int64_t ranks = resolved.axes.at(resolved.contract->comm()->axis);
  const int64_t most = resolved.axes.at("max_tokens_per_rank");
  const int64_t local = (resolved.axes.at("num_experts") + ranks - 1) / ranks;
  std::vector<std::vector<int64_t>> by_expert(static_cast<size_t>(local));
  ResolvedCase there = resolved;
  for (there.rank = 0; there.rank < ranks; ++there.rank) {
    const Tensor chosen = choices(there);
    const int64_t top_k = chosen.shape[1];
    for (int64_t i = 0; i < chosen.numel(); ++i) {
      const int64_t expert = static_cast<int64_t>(chosen.at(i)) - resolved.rank * local;
      if (expert >= 0 && expert < local)
        by_expert[static_cast<size_t>(expert)].push_back(there.rank * most * top_k + i);
    }
  }
  std::vector<int64_t> all;
  for (const auto& rows : by_expert) all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

}  // namespace fk
