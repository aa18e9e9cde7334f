// SPDX-License-Identifier: Apache-2.0
// Which experts tokens are sent to, where no run has shown it. `skew` is the load of the busiest
// expert over the mean load; loads fall with their rank by a power law (Zipf) whose exponent gives
// that. Every token has distinct experts, drawn so that each has its exact expected load.
//
// Where published figures lie: models trained with an auxiliary loss, over a whole validation set,
// 1.72 (1B parameters) and 1.52 (3B), with loss-free balancing 1.04 (arXiv 2408.15664, Table 2:
// MaxVio_global 0.72, 0.52 and 0.04, which is skew - 1). DeepSeek-V3 in service, one layer, the 16
// experts of one GPU: 3.17 (counts in a comment of 2025-05-13 on github.com/sgl-project/sglang/
// pull/5524); the law above with that skew is within a quarter of each of those counts but the
// smallest.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/cases/inputs.hpp"
#include "core/tensor/random.hpp"

namespace fk {

inline constexpr double kPublishedSkew = 1.72;

// Expected loads by rank, the busiest first, as shares of the mean. A skew above experts / top_k,
// where every token has the busiest one, counts as that. FK_CHECK 1 <= top_k <= experts.
std::vector<double> expert_loads(int64_t experts, int64_t top_k, double skew);

// Experts of `tokens` * `top_k` assignments, row by row. Which experts are busy is what `busy`
// says: ranks that have one in common send their tokens to the same.
std::vector<int64_t> route(int64_t tokens, int64_t top_k, int64_t experts, double skew, Random busy,
                           Random& r);

// Assignments in the order of their experts, stable, and where each expert's begin.
std::vector<int64_t> rows_by_expert(const std::vector<int64_t>& of, int64_t experts);
std::vector<int64_t> expert_offsets(const std::vector<int64_t>& of, int64_t experts);

// The expert of each of `count` assignments: some of `experts` get most, some none.
std::vector<int64_t> uneven_experts(int64_t count, int64_t experts, Random random);

// "uniform" is 1, "skewed" what is published, "skewed:3.2" that; empty is 0. Error at --routing.
double skew_of_routing(const std::string& text);

// Whether calls of the op are told the experts: its fields have generators of routing.
bool has_routing(const Contract& contract);
// The case with another routing instead of the contract's or of what was recorded.
Case with_skew(const Contract& contract, const Case& source, double skew);
// The busiest expert's load over the mean in these contents; nothing where there is no routing or
// no token.
std::optional<double> skew_of(const ResolvedCase& resolved, const CaseValues& values);

}  // namespace fk
