// SPDX-License-Identifier: Apache-2.0
// The generate engine over any two programs: what drive.hpp's generate() does for a session, open
// to tests with programs of their own.
#pragma once
#include <vector>

#include "core/exec/model.hpp"
#include "core/exec/session.hpp"

namespace fk {

struct GenerateSetup {
  int64_t max_batch = 1, max_context = 0, page_size = 1, pages = 0, vocab_size = 0;
  std::vector<int64_t> eos;
  Program* encoder = nullptr;                      // GenerateOptions::encoder
  std::vector<Model::RequestTensor> tensors = {};  // its inputs
  int64_t encoder_length = 0;                      // GenerateOptions::encoder_length
};

// Serves the exchange until no request will come. Throws what a program throws.
void generate(Program& prefill, Program& decode, Exchange& exchange, const GenerateSetup& setup);

// That of a session with these end tokens, without an encoder.
GenerateSetup generate_setup(Session& session, const std::vector<int64_t>& eos);

struct Sequence;  // core/engines/scheduler.hpp
// Takes what was chosen as token `index` of a sequence, or what is forced, and reports it. True
// when the request has ended or has failed.
bool take_token(Sequence& sequence, int64_t index, int64_t sampled, const GenerateSetup& setup,
                Exchange& exchange);
// The same of the next one.
bool append_token(Sequence& sequence, int64_t sampled, const GenerateSetup& setup,
                  Exchange& exchange);

// The random number in [0, 1) with which token `index` of a request is chosen: a function of the
// request alone, so that batching, chunking and preemption do not change what is sampled.
float sampling_uniform(uint64_t seed, int64_t index);

// The batch at which a captured decode step runs `count` requests: up to 16 as they are, then eight
// sizes up to each power of two, so that few captures serve all batches.
int64_t decode_batch(int64_t count);

}  // namespace fk
