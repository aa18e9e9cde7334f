// SPDX-License-Identifier: Apache-2.0
// The task of `check`, and its rows for people.
#pragma once
#include <string>
#include <vector>

#include "core/check/check.hpp"
#include "core/report/check_documents.hpp"
#include "core/worker/task.hpp"

namespace fk {

// Checks one op of a plugin. Each row comes as news.
struct CheckOp {
  static constexpr const char* kName = "check_op";
  using Answer = Nothing;
  std::string plugin, op, size;
  std::vector<std::string> cases;
  std::string device, captured;
  bool quick = false;
  std::vector<std::string> families;
  uint64_t seed = 0;
  FK_FIELDS(plugin, op, size, cases, device, captured, quick, families, seed)
};

// Prints one line per op without faults, and each bad row in full.
void print_rows(const std::vector<CheckRow>& rows, bool verbose);

}  // namespace fk
