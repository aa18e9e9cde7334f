// SPDX-License-Identifier: Apache-2.0
// The agent `mutate`: changes constants of a source and flags of its recipe, at random.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/archive/program.hpp"

namespace fk {

// A change of one program.
struct Mutation {
  std::string strategy;  // "constant kTile x 2", "flag -funroll-loops"
  std::vector<ProgramFile> files;
};
// All single changes: constants `constexpr int NAME = N` and, in Python, `NAME = N` in capitals are
// doubled and halved; flags of candidate.yaml come and go. Sorted by strategy.
std::vector<Mutation> mutations_of(const std::vector<ProgramFile>& files,
                                   const std::string& language);

// Answers in the folder of a step (docs/evolve.md) with a change of its first parent, or two. The
// draw prefers strategies with gains in archive.json, where it has them. Returns why there is no
// answer; empty: out/ has it.
std::string mutate(const std::filesystem::path& folder, const std::vector<ProgramFile>& parent);

}  // namespace fk
