// SPDX-License-Identifier: Apache-2.0
// The majors of the ABI that this host loads. Their layouts are equal, so one loader reads them
// all. Only the name of the entry and the major in the note differ.
#pragma once
#include <cstdint>
#include <string>

#include "fk/abi.h"

namespace fk {

inline constexpr uint32_t kOldestAbiMajor = 0;  // until release 1.1 (docs/abi.md)

// The name of a plugin's entry, such as fk_plugin_v1.
inline std::string entry_symbol(uint32_t major) { return "fk_plugin_v" + std::to_string(major); }

// Empty for the present major; for an older one a sentence with the next step.
inline std::string old_abi(uint32_t major) {
  if (major >= FK_ABI_MAJOR) return "";
  return "was built for ABI v" + std::to_string(major) +
         ", which only this version still loads; build it again with this version's headers";
}

}  // namespace fk
