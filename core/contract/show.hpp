// SPDX-License-Identifier: Apache-2.0
// A contract as a page that fits into a prompt: all facts that an author needs to write a kernel.
#pragma once
#include <string>

#include "core/contract/contract.hpp"

namespace fk {

// The sizes of a case: "T=3 size=17 x:bf16".
std::string sizes_text(const Case& one);
std::string contract_page(const Contract& contract);

}  // namespace fk
