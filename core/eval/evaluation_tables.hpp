// SPDX-License-Identifier: Apache-2.0
// The tables of an evaluation, for text, CSV and Markdown.
#pragma once
#include <string>
#include <vector>

#include "core/eval/evaluation.hpp"
#include "core/report/table.hpp"

namespace fk {

struct NamedTable {
  std::string name, title;  // name: of a file
  Table table;
};

// families, levels, fast_p, models, cases, missing and left_out; empty ones are left out.
std::vector<NamedTable> evaluation_tables(const Evaluation& evaluation);
// "0.574 (0.560-0.590): speed 0.900 (0.88-0.93), correctness 0.850, coverage 0.750".
std::string score_line(const Evaluation& evaluation);
// Head, tables and score.
std::string evaluation_text(const Evaluation& evaluation, bool colour);

}  // namespace fk
