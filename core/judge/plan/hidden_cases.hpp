// SPDX-License-Identifier: Apache-2.0
// Hidden cases. Contracts and their sizes are public, so a kernel may be right for these sizes
// only. So requested cases are also called with fewer rows; the verdict's secret draws the number.
// The instances were made for the case as written. Lengths are of all kinds, and contents include
// those of smaller cases. If the candidate takes them, there are also gaps between rows, and
// constructor values, switches and optional fields that only smaller cases have. One case of each
// op also gets another width (hidden_shapes.hpp).
#pragma once
#include <optional>

#include "core/judge/plan/asked_case.hpp"
#include "core/judge/verdict/secret.hpp"

namespace fk {

// Parts: differences from the case as written.
inline constexpr int kHiddenPadded = 1, kHiddenValues = 2, kHiddenSwitches = 4, kHiddenFields = 8;
// The switches that kHiddenSwitches leaves as they are, or one switch alone: together the two
// change every switch. It comes without other parts.
inline constexpr int kHiddenOthers = 16;
// Gaps behind rows alone, with dense heads, for candidates which refuse gaps between heads. Without
// other parts. A taken kHiddenPadded makes it needless: the draw chooses either layout there.
inline constexpr int kHiddenDense = 32;

// Names of row variants in the order of asking, which ends when each part that is taken at all was
// taken. After a refusal of two parts together, each one is asked alone. Empty when a case has no
// rows.
std::vector<std::string> hidden_variants(const Contract& contract, const Case& source);
bool is_hidden(const std::string& variant);  // of rows or of a width
// bits of the parts; nothing: not a row variant
std::optional<int> hidden_parts(const std::string& variant);

// The smallest hidden number for `rows` rows: half of them, and at least two if the case has two.
// So an earlier step can have fewer.
int64_t fewest_hidden(int64_t rows);

// Adds the secret's draw to a hidden variant; returns other cases unchanged.
AskedCase hidden_by(AskedCase asked, const Secret& secret);

// Number of an op's cases to judge again with hidden row counts: half of them, and at least three.
// All for ops with expert ids, because some kinds of imbalance show only in some sizes.
int hidden_of(const Contract& contract, int cases);
// Secret sort key of a variant. Widths are sorted separately.
uint64_t hidden_order(const Secret& secret, const std::string& op, const std::string& case_name,
                      const std::string& variant);

// Applies `asked.draw` to a hidden variant's case; the case as written stays unchanged.
PosedCase pose_hidden(const AskedCase& asked, const Contract& contract, Case source);

}  // namespace fk
