// SPDX-License-Identifier: Apache-2.0
// The load of a model as data: requests, all at once or in batches. scenarios/README.md has the
// grammar of the files.
#pragma once
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/engines/load.hpp"

namespace fk {

struct Workload {
  std::string name, summary;
  std::string kind;                  // how the requests arrive, a file of core/engines/kinds
  std::shared_ptr<const Load> load;  // the requests of a round
  bool together = false;             // they are one batch; else they arrive at the start
  bool at_their_times = false;       // or when the load says (Load::arrives_s)
  // Unmeasured rounds, and measured ones; 0: the host chooses their number.
  int64_t warmup = 0, iterations = 0;

  int64_t rounds() const { return warmup + std::max<int64_t>(1, iterations); }
};

// A kind of workload: the numbers that say how requests arrive, and their reader. At file scope in
// core/engines/kinds/<name>.cpp: FK_WORKLOAD_KIND(mine, {{"requests"}, read_mine});
struct WorkloadKind {
  std::vector<std::string> numbers;
  // Fills `together`, `warmup` and `iterations`. Returns the number of requests in a round.
  int64_t (*read)(const WorkloadKeys& keys, Workload& workload) = nullptr;
};
struct WorkloadKindRegistration {
  WorkloadKindRegistration(const char* name, WorkloadKind kind);
};
#define FK_WORKLOAD_KIND(name, ...) \
  static const ::fk::WorkloadKindRegistration fk_workload_##name(#name, __VA_ARGS__)

inline constexpr int64_t kMostRequests = 1'000'000;  // of a workload, and rounds

// Reads the workload `name` of a file for an engine of this name; empty: the first that knows its
// keys. `tiny` applies its tiny scaling. Requests longer than `context_max` tokens are left out.
// Error with file, line and the nearest known name.
Workload load_workload(const std::filesystem::path& file, const std::string& name,
                       const std::string& engine, bool tiny, int64_t context_max);
std::vector<std::string> workload_names(const std::filesystem::path& file);

// The requests of a round. Ids count from 1, tokens are uniform below the vocabulary, elements of
// tensors are normal. All depend on seed, workload, round and id alone. Round 0 of a recording is
// as it was recorded. In later rounds every 16th token of a prompt is another one, from the first
// on, so that no candidate can have the answers.
std::vector<Request> make_requests(const Workload& workload, const RequestForm& form, uint64_t seed,
                                   int64_t round);

}  // namespace fk
