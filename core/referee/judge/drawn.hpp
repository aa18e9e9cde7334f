// SPDX-License-Identifier: Apache-2.0
// Contracts can be read by everybody, and so can the sizes of their cases: a kernel may be right
// for these and for no others. So cases that were asked for are called with fewer rows as well, as
// many as the secret of the verdict draws, on instances that were made for the case as it is
// written, with lengths of all kinds and with contents that only smaller cases have; where the
// candidate takes that with gaps between the rows of what may have them, and with constructor
// values and optional fields that only smaller cases have.
#pragma once
#include "core/referee/judge/asked_case.hpp"
#include "core/referee/verdict/secret.hpp"

namespace fk {

// Names of variants in the order in which they are asked for, until one is taken. Empty where a
// case has no rows to draw.
std::vector<std::string> drawn_variants(const Contract& contract, const Case& source);
bool is_drawn(const std::string& variant);

// The same where nothing is drawn; else with what the secret draws.
AskedCase drawn_by(AskedCase asked, const Secret& secret);

// So many cases of an op are judged with drawn rows, in an order of which nobody knows who is first.
inline constexpr int kDrawnCases = 3;
uint64_t drawn_turn(const Secret& secret, const std::string& op, const std::string& case_name);

// Of a drawn variant what `asked.draw` makes of the case; as it is written without.
PosedCase pose_drawn(const AskedCase& asked, const Contract& contract, Case source);

}  // namespace fk
