// SPDX-License-Identifier: Apache-2.0
// How a model is driven, as data: which requests, how long, all at once or batch by batch.
// scenarios/README.md has the grammar of the files.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/exec/model.hpp"

namespace fk {

struct Workload {
  // throughput: all requests are there from the start; latency: `batch` requests at a time, the
  // next ones when the last are done, `warmup` unmeasured rounds and `iterations` measured ones.
  enum class Kind { throughput, latency };
  struct Length {
    int64_t prompt = 0, output = 0;  // tokens; output 0 for encoders, prompt too without tokens
  };

  std::string name, summary;
  Kind kind = Kind::throughput;
  std::vector<Length> lengths;  // throughput: of every request; latency: of one batch
  int64_t left_out = 0;         // requests that do not fit the context, so are not in `lengths`
  int64_t batch = 0, warmup = 0, iterations = 0;  // latency
  Sampling sampling;                              // its seed is not used

  int64_t rounds() const { return kind == Kind::latency ? warmup + iterations : 1; }
  int64_t prompt_tokens() const;  // of one round
  int64_t output_tokens() const;
};

// Reads the workload `name` of a file. `tiny` applies its tiny scaling; requests longer than
// `context_max` tokens are left out. Errors name file, line and the nearest known name.
Workload load_workload(const std::filesystem::path& file, const std::string& name, bool tiny,
                       int64_t context_max);
std::vector<std::string> workload_names(const std::filesystem::path& file);

// The requests of a round: ids count from 1, tokens are uniform below `vocab_size`, elements of
// tensors are normal, and all depend on seed, workload, round and id alone. ignore_eos, so that
// every run makes the same number of tokens.
std::vector<Request> make_requests(const Workload& workload, int64_t vocab_size,
                                   const std::vector<Model::RequestTensor>& tensors, uint64_t seed,
                                   int64_t round);
// Gives a request such tensors, normal from the seed.
void add_tensors(Request& request, const std::vector<Model::RequestTensor>& tensors, uint64_t seed);

}  // namespace fk
