// SPDX-License-Identifier: Apache-2.0
// Writes fk/ops/<op>.h, the C header for plugin authors, from a contract.
#pragma once
#include <string>

#include "core/contract/contract.hpp"

namespace fk {

// The whole header as text. People read the struct part only; `struct_part` returns it alone, as in
// `fk-host show`.
std::string header_text(const Contract& contract);
std::string struct_part(const Contract& contract);

// A field as authors see it. field_type: its C type with the blank or star before the name ("const
// fk_in *"). field_comment: its facts ("[T, C] f32|bf16; default 0"), or an empty text.
std::string field_type(const Slot& slot);
std::string field_comment(const Contract& contract, const Slot& slot);

}  // namespace fk
