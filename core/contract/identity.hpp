// SPDX-License-Identifier: Apache-2.0
// Contract identity: the canonical line of a slot, the chained hashes, and the comparison of a
// host's contract with what a plugin was compiled against.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"
#include "fk/contract.h"

namespace fk {

// "forward.x tensor in shape=[T,C] | dtype=f32,bf16": what is before the bar is hashed.
std::string slot_line(const Slot& slot);
// Reads such a line back, for slots that only the plugin knows. Throws Error.
Slot parse_line(const std::string& line);
// Fills Contract::prefix.
void seal(Contract& contract);

// The result of laying a plugin's contract beside the host's.
struct Match {
  bool ok = false;
  std::string why;                                // one sentence that names the slot, when not ok
  std::array<uint32_t, kSections> slots{};        // the plugin's counts
  std::array<std::vector<Slot>, kSections> tail;  // slots that only the plugin has
  std::array<std::vector<size_t>, kSections>
      choices;  // per slot: enum values that the plugin knows
};
Match match(const Contract& host, const fk_contract& plugin);

// The slots of one frame as the plugin expects them: cut (only what is at its default) or filled
// up. `frame` has the host's slots. Returns why it cannot be, or an empty string and the frame in
// `out`.
std::string fit(const Contract& host, const Match& match, SectionId section,
                const std::vector<fk_slot>& frame, std::vector<fk_slot>& out);

}  // namespace fk
