// SPDX-License-Identifier: Apache-2.0
// The load of a model as data: requests, their lengths, all at once or in batches.
// scenarios/README.md has the grammar of the files.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/exec/model.hpp"

namespace fk {

struct Workload {
  // throughput: all requests arrive at the start. latency: `batch` requests at a time; the next
  // batch follows the last one. There are `warmup` unmeasured rounds and `iterations` measured
  // ones.
  enum class Kind { throughput, latency };
  struct Length {
    // tokens. Encoders have output 0. Models without tokens have prompt 0 too.
    int64_t prompt = 0, output = 0;
  };

  std::string name, summary;
  Kind kind = Kind::throughput;
  std::vector<Length> lengths;  // throughput: of each request; latency: of one batch
  int64_t left_out = 0;         // requests that do not fit the context; not in `lengths`
  int64_t batch = 0, warmup = 0, iterations = 0;  // latency
  Sampling sampling;                              // its seed is unused

  int64_t rounds() const { return kind == Kind::latency ? warmup + iterations : 1; }
  int64_t prompt_tokens() const;  // of one round
  int64_t output_tokens() const;
};

// Reads the workload `name` of a file. `tiny` applies its tiny scaling. Requests longer than
// `context_max` tokens are left out. Error with file, line and the nearest known name.
Workload load_workload(const std::filesystem::path& file, const std::string& name, bool tiny,
                       int64_t context_max);
std::vector<std::string> workload_names(const std::filesystem::path& file);

// The requests of a round. Ids count from 1, tokens are uniform below `vocab_size`, elements of
// tensors are normal. All depend on seed, workload, round and id alone. With ignore_eos, so that
// every run makes equally many tokens.
std::vector<Request> make_requests(const Workload& workload, int64_t vocab_size,
                                   const std::vector<Model::RequestTensor>& tensors, uint64_t seed,
                                   int64_t round);
// Adds these tensors to a request, normal from the seed.
void add_tensors(Request& request, const std::vector<Model::RequestTensor>& tensors, uint64_t seed);

}  // namespace fk
