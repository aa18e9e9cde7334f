// SPDX-License-Identifier: Apache-2.0
// Documents about programs.
#pragma once
#include <string>
#include <vector>

#include "core/archive/memory.hpp"
#include "core/archive/program.hpp"
#include "core/report/document.hpp"

namespace fk {

// A program with its whole history: a line of `archive export`.
struct ProgramDocument {
  static constexpr const char* kSchema = "fk-host.program/1";
  static constexpr const char* kTitle = "A judged program with all verdicts";
  JudgedProgram program;
  std::vector<ProgramVerdict> verdicts;
};
template <class Visitor>
void fields(Visitor& v, ProgramDocument& d) {
  fields(v, d.program);
  v("verdicts", d.verdicts, "all of its verdicts, the oldest first");
}

struct ArchiveDocument {
  static constexpr const char* kSchema = "fk-host.archive/1";
  static constexpr const char* kTitle = "What `fk-host archive` did or found";
  std::string action, file, diff;
  std::vector<JudgedProgram> programs;
  std::vector<StrategyEstimate> strategies;
  int64_t changed = 0;
};
template <class Visitor>
void fields(Visitor& v, ArchiveDocument& d) {
  v("action", d.action, "best, sample, lineage, diff, export, import, prune or strategies");
  v("file", d.file, "the archive");
  v("programs", d.programs, "of best: the best first; of lineage: children before parents");
  v("diff", d.diff, "of diff, a unified difference of the sources");
  v("strategies", d.strategies, "of strategies, estimates from outcomes, the largest gain first");
  v("changed", d.changed, "of export, import and prune: number of programs");
}

}  // namespace fk
