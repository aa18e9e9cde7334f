// SPDX-License-Identifier: Apache-2.0
// A contract as a page that fits into a prompt: all facts that an author needs to write a kernel.
#pragma once
#include <string>

#include "core/contract/contract.hpp"

namespace fk {

// The sizes of a case: "T=3 size=17 x:bf16".
std::string sizes_text(const Case& one);

struct PageParts {
  size_t cases = 6;      // cases of each size, and twice as many full ones
  bool mirrors = true;   // the production module's arguments, and each field's kinds of inputs
  bool commands = true;  // the class to write, and the verbs
};
std::string contract_page(const Contract& contract, const PageParts& parts = {});

}  // namespace fk
