// SPDX-License-Identifier: Apache-2.0
// The widths of an op, which its constructor is told (hidden size, heads, channels), are in its
// contract as the sizes are: a kernel may take them all and be right for those of the cases alone.
// So of every op one case is called once more with one of them drawn by the secret: more than half
// of the case's own and less than it, as no case has it. Nobody writes down which widths go
// together; what is true of all cases (a multiple, a divisor, an order) has to be true of the drawn
// one.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"

namespace fk {

// Names of variants, one for each integer of init of which there is another width; which of them
// is called is drawn as well, and who refuses one is asked for the next. None where ranks call the
// op together, and above L1, where widths go with each other in ways that cases do not show.
std::vector<std::string> width_variants(const Contract& contract, const Case& source);

// The integer of init that such a variant draws; empty: it is another variant.
std::string width_of(const std::string& variant);

// Nothing where no other one fits.
std::optional<int64_t> draw_width(const Contract& contract, const Case& source,
                                  const std::string& width, uint64_t draw);

}  // namespace fk
