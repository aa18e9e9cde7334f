// SPDX-License-Identifier: Apache-2.0
// The options of `bench`.
#pragma once
#include <string>
#include <vector>

#include "core/check/bench.hpp"
#include "core/cli/output.hpp"
#include "core/judge/verdict/verdict.hpp"

namespace fk {

struct BenchArguments {
  std::vector<std::string> what;  // ops, or candidates
  JsonOutput json;
  std::string device = "cpu", secret, captured, routing, receipt, trace, remote, archive;
  std::vector<std::string> ops, families, variants, dtypes;  // for a candidate
  double patience_s = 20, budget_s = Policy().budget_s;
  int jobs = 1;
  bool all = false, sandbox = true, fresh = false, no_store = false, build = false;
  bool profile = false, thorough = false, verbose = false;
  BenchOptions options;
};

}  // namespace fk
