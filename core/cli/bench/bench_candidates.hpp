// SPDX-License-Identifier: Apache-2.0
// bench of candidates: the verdict on one, or on many with a table.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/cli/judged.hpp"

namespace fk {

// One of the paths is empty.
struct BenchCandidate {
  std::string name;              // as it was typed
  std::filesystem::path folder;  // sources, which are compiled first
  std::filesystem::path plugin;
};

// Every candidate of the folder of candidates: folders with sources, and plugins elsewhere in it.
// Error when there is none.
std::vector<BenchCandidate> all_candidates();

// Both complete the request with a candidate, print, and return the exit code. The second judges
// one candidate at a time, and compiles up to `jobs` folders at the same time. On the CPU, no
// folder is compiled while a candidate is judged: a compiler would distort the times.
int bench_one(const BenchCandidate& candidate, BenchRequest request);
int bench_many(const std::vector<BenchCandidate>& candidates, const BenchRequest& request,
               int jobs);

}  // namespace fk
