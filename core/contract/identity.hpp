// SPDX-License-Identifier: Apache-2.0
// The identity of a contract: the canonical line of a slot, and the chained hashes. It also
// compares the host's contract with the one that a plugin was compiled against.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"
#include "fk/contract.h"

namespace fk {

// "forward.x tensor in shape=[T,C] | dtype=f32,bf16": the hash covers the part before the bar.
std::string slot_line(const Slot& slot);
// Parses such a line, for slots known only to the plugin. Throws Error.
Slot parse_line(const std::string& line);
// Fills Contract::prefix.
void seal(Contract& contract);

// The comparison of a plugin's contract with the host's.
struct Match {
  bool ok = false;
  std::string why;                                // not ok: one sentence that names the slot
  std::array<uint32_t, kSections> slots{};        // the plugin's counts
  std::array<std::vector<Slot>, kSections> tail;  // slots known only to the plugin
  std::array<std::vector<size_t>, kSections> choices;  // per slot: enum values known to the plugin
};
Match match(const Contract& host, const fk_contract& plugin);

// Converts one frame, which has the host's slots, to the plugin's slots. It cuts slots only if they
// have their defaults, and appends missing ones. Returns an empty string and the frame in `out`, or
// the reason of the failure.
std::string fit(const Contract& host, const Match& match, SectionId section,
                const std::vector<fk_slot>& frame, std::vector<fk_slot>& out);

}  // namespace fk
