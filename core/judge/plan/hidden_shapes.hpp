// SPDX-License-Identifier: Apache-2.0
// Hidden widths. The constructor's widths (hidden size, heads, channels) are public in the
// contract. So a kernel may take all widths and be right only for the public ones. The judge calls
// one case of each op again with another width, which the secret chooses. It is at least half of
// the case's width, less than this width, and in no case of the contract. No file says which widths
// belong together. A relation which holds in all cases (multiple, divisor, order) must hold for the
// new width too.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"

namespace fk {

// One variant per integer of init that can have another width. The secret chooses the variant;
// after a refusal the next one is asked. Empty where ranks call the op together, for range cases,
// and where contents are written for the case's sizes (ids, sinks).
std::vector<std::string> width_variants(const Contract& contract, const Case& source);

// The integer of init that the variant changes; empty: another kind of variant.
std::string width_of(const std::string& variant);

// Nothing when no other width fits.
std::optional<int64_t> draw_width(const Contract& contract, const Case& source,
                                  const std::string& width, uint64_t draw);

}  // namespace fk
