// SPDX-License-Identifier: Apache-2.0
// Contracts can be read by everybody, and so can the sizes of their cases: a kernel may be right
// for these and for no others. So cases that were asked for are called with fewer rows as well, as
// many as the secret of the verdict draws, on instances that were made for the case as it is
// written, with lengths of all kinds and with contents that only smaller cases have; where the
// candidate takes that with gaps between the rows of what may have them, and with constructor
// values, switches among them, and optional fields that only smaller cases have. One case of an op
// is called with another width as well (hidden_shapes.hpp).
#pragma once
#include <optional>

#include "core/judge/plan/asked_case.hpp"
#include "core/judge/verdict/secret.hpp"

namespace fk {

// What is other than in the case as it is written.
inline constexpr int kHiddenPadded = 1, kHiddenValues = 2, kHiddenSwitches = 4, kHiddenFields = 8;

// Names of variants of rows in the order in which they are asked for, until what is taken has each
// part that is taken at all: who refuses two of them together is asked for each. Empty where a case
// has no rows to draw.
std::vector<std::string> hidden_variants(const Contract& contract, const Case& source);
bool is_hidden(const std::string& variant);                   // of rows, or of a width as well
std::optional<int> hidden_parts(const std::string& variant);  // bits, of one of rows alone

// The fewest that are drawn of so many rows: half of them, and two where there are, so that a step
// before has fewer.
int64_t fewest_hidden(int64_t rows);

// The same where nothing is drawn; else with what the secret draws.
AskedCase hidden_by(AskedCase asked, const Secret& secret);

// Of so many cases of an op so many are judged with hidden rows, in an order of which nobody knows
// who is first: the half of them and at least three, and all where calls are told the experts of
// tokens, because how uneven these may be shows in some sizes alone.
int hidden_of(const Contract& contract, int cases);
// Widths have turns of their own.
uint64_t hidden_order(const Secret& secret, const std::string& op, const std::string& case_name,
                      const std::string& variant);

// Of a hidden variant what `asked.draw` makes of the case; as it is written without.
PosedCase pose_hidden(const AskedCase& asked, const Contract& contract, Case source);

}  // namespace fk
