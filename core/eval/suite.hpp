// SPDX-License-Identifier: Apache-2.0
// A suite: what an evaluation runs. scenarios/suites/<suite>.yaml; docs/evaluation.md has the
// grammar.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"

namespace fk {

struct Suite {
  std::string name, summary;
  std::filesystem::path file;
  uint64_t seed = 1;   // of the bootstrap
  double minutes = 0;  // aim for one submission; 0: none
  // Tier 1: verdicts on the submission's ops.
  struct Ops {
    std::string size = "ci";
    double seconds = 0.2;               // of timing per case, about
    std::string routing = "skewed";     // inputs of data-dependent ops without a recording
    std::filesystem::path recorded;     // folder of recorded cases; empty: none
    std::vector<std::string> only;      // empty: all
    std::vector<std::string> families;  // of inputs; empty: all
    bool thorough = false;
  } ops;
  // Tier 2: models. Tier 3 follows from them.
  struct Models {
    std::vector<std::filesystem::path> scenarios;
    std::string profile = "full";        // tiny or full
    std::vector<std::string> workloads;  // only these, where a scenario has them; empty: all
    int processes = 0;                   // timed processes of each side; 0: run's own number
    double time_limit_s = 0;             // of one workload; 0: none
    bool eager = false;                  // also without CUDA graphs, on a GPU
    int64_t tp = 1;
  } models;
};

// Error with file, line, problem and the nearest known name.
Suite load_suite(const std::filesystem::path& file, const Catalog& catalog);
// The file for an argument: a path, or a name in scenarios/suites. Error with the nearest name.
std::filesystem::path find_suite(const std::string& argument);
std::vector<std::string> suite_names();

}  // namespace fk
