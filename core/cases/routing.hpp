// SPDX-License-Identifier: Apache-2.0
// Generated experts of tokens, for cases without a recording. `skew` is the busiest expert's load
// over the mean load. Loads fall with their rank by a power law (Zipf) with the exponent for this
// skew. Every token has distinct experts, chosen at random so that each expert's expected load is
// exact.
//
// Published figures, for comparison. Models trained with an auxiliary loss, over a whole validation
// set: 1.72 (1B parameters) and 1.52 (3B); with loss-free balancing: 1.04. Source: arXiv
// 2408.15664, Table 2 (MaxVio_global 0.72, 0.52 and 0.04, which is skew - 1). DeepSeek-V3 in
// service, one layer, the 16 experts of one GPU: 3.17. Source: counts in a comment of 2025-05-13 on
// github.com/sgl-project/sglang/pull/5524. The law above with this skew is within a quarter of each
// count but the smallest.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/cases/inputs.hpp"
#include "core/tensor/random.hpp"

namespace fk {

inline constexpr double kPublishedSkew = 1.72;

// Expected loads by rank, the busiest first, as shares of the mean. At experts / top_k every token
// has the busiest expert; a larger skew counts as this value. FK_CHECK 1 <= top_k <= experts.
std::vector<double> expert_loads(int64_t experts, int64_t top_k, double skew);

// Experts of `tokens` * `top_k` assignments, row by row. `busy` decides which experts are busy:
// ranks with an equal `busy` send their tokens to the same experts.
std::vector<int64_t> route(int64_t tokens, int64_t top_k, int64_t experts, double skew, Random busy,
                           Random& r);

// Assignments sorted by expert, stable; and the first position of each expert.
std::vector<int64_t> rows_by_expert(const std::vector<int64_t>& of, int64_t experts);
std::vector<int64_t> expert_offsets(const std::vector<int64_t>& of, int64_t experts);

// The expert of each of `count` assignments: some of `experts` get most of them, some none.
std::vector<int64_t> uneven_experts(int64_t count, int64_t experts, Random random);

// The skew of an option: "uniform" is 1, "skewed" the published value, "skewed:3.2" 3.2, empty 0.
// Error at --routing.
double skew_of_routing(const std::string& text);

// True if the op's fields have generators of routing.
bool has_routing(const Contract& contract);
// The case with generated routing in place of the contract's or the recorded one.
Case with_skew(const Contract& contract, const Case& source, double skew);
// The busiest expert's load over the mean in these contents; empty without routing or tokens.
std::optional<double> skew_of(const ResolvedCase& resolved, const CaseValues& values);

}  // namespace fk
