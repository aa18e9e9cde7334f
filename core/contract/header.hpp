// SPDX-License-Identifier: Apache-2.0
// Contract -> the C header that plugin authors include: fk/ops/<op>.h.
#pragma once
#include <string>

#include "core/contract/contract.hpp"

namespace fk {

// The whole header as text. Only the struct part is meant to be read by people; `struct_part` gives
// that part alone, as it stands in `fk-host show`.
std::string header_text(const Contract& contract);
std::string struct_part(const Contract& contract);

}  // namespace fk
