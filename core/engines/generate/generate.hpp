// SPDX-License-Identifier: Apache-2.0
// The generate engine for any two programs, so that tests can use their own (engine.hpp).
#pragma once
#include <vector>

#include "core/engines/generate/engine.hpp"
#include "core/engines/kv_page_pool.hpp"
#include "core/exec/session.hpp"

namespace fk {

struct GenerateSetup {
  int64_t max_batch = 1, max_context = 0, page_size = 1, pages = 0, vocab_size = 0;
  std::vector<int64_t> eos;
  struct Encoder {
    Program* program = nullptr;
    GenerateEncoder options = {};
    int64_t first = 0;  // its first row among those of all encoders
  };
  std::vector<Encoder> encoders = {};
  KvPagePool* pool = nullptr;  // Scheduler::Options::pool

  int64_t source_rows() const;  // of all encoders
};

// Serves the exchange until no request will come. Passes on exceptions of a program.
void generate(Program& prefill, Program& decode, Exchange& exchange, const GenerateSetup& setup);

// Setup for a session with these end tokens, without an encoder.
GenerateSetup generate_setup(Session& session, const RequestForm& form,
                             const std::vector<int64_t>& eos);

struct Sequence;  // core/engines/scheduler.hpp
// Takes the sampled token, or the forced one, as token `index` of a sequence, and reports it. True
// when the request has ended or failed.
bool take_token(Sequence& sequence, int64_t index, int64_t sampled, const GenerateSetup& setup,
                Exchange& exchange);
// take_token for the sequence's next index.
bool append_token(Sequence& sequence, int64_t sampled, const GenerateSetup& setup,
                  Exchange& exchange);

// The random number in [0, 1) that chooses token `index` of a request. It depends on the request
// alone, so batching, chunking and preemption do not change samples.
float sampling_uniform(uint64_t seed, int64_t index);

// Batch size of a captured decode step for `count` requests: `count` up to 16, then one of eight
// sizes up to each power of two. So few captures serve all batches.
int64_t decode_batch(int64_t count);

}  // namespace fk
