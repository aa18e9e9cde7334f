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

// A field as authors see it: its C type with the blank or star before the name ("const fk_in *"),
// and what is to be known about it ("[T, C] f32|bf16; default 0"), which may be empty.
std::string field_type(const Slot& slot);
std::string field_comment(const Contract& contract, const Slot& slot);

}  // namespace fk
