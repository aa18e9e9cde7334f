// SPDX-License-Identifier: Apache-2.0
// A request to a model, its answer, and the exchange of both. The form of requests is the engine's
// (engine.hpp).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fk {

// The choice of the next token. temperature 0 is greedy.
struct Sampling {
  float temperature = 0;
  int32_t top_k = 0;  // 0: the most likely token
  float top_p = 1;    // 1: off
  uint64_t seed = 0;
  // The generate engine alone takes these, and applies them on the host.
  float min_p = 0;               // least probability, in parts of the largest one; 0: off
  float frequency_penalty = 0;   // for each time that a token is in the answer, off its logit
  float presence_penalty = 0;    // once for each token in the answer
  float repetition_penalty = 1;  // divides positive logits of tokens in prompt and answer; 1: off
  bool on_host() const {
    return min_p > 0 || frequency_penalty != 0 || presence_penalty != 0 || repetition_penalty != 1;
  }
};

// A float32 tensor with a name, row-major.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// One piece of work for a model.
struct Request {
  uint64_t id = 0;
  std::vector<int64_t> tokens;       // prompt, or the text to encode
  std::vector<NamedTensor> tensors;  // other inputs: an image, the features of a sound
  // Number of tokens to generate. 0 for encoders, and for a prompt that is only scored
  // (prompt_logits): such a request ends with the logits of its last prompt position.
  int64_t new_tokens = 0;
  Sampling sampling;
  std::vector<int64_t> forced;  // teacher forcing: these replace sampled tokens
  // With `forced`, for models that choose tokens in any order: the order of their indices. Empty:
  // from first to last.
  std::vector<int64_t> order;
  bool logits = false;         // report the logits of each position that is sampled from
  bool prompt_logits = false;  // and those of each prompt position, from this one on:
  int64_t first_logits = 0;
  bool ignore_eos = true;
  // Pages of its tokens may be shared with later requests that begin equally. Served requests have
  // it, and judged ones never.
  bool shares_prefix = false;
  // It ends the earlier request of this id, and has nothing else. The generate engine reports that
  // request as failed (kCancelled), unless it has ended before; other engines do not take it.
  bool cancels = false;
};
inline constexpr const char* kCancelled = "cancelled";

// A request with its results, and the controller's times.
struct RequestResult {
  Request request;
  std::vector<int64_t> tokens;                   // by index; -1: missing
  std::vector<int64_t> order;                    // indices in the order of arrival
  std::vector<double> token_s;                   // times of arrival, in that order
  std::map<int64_t, std::vector<float>> logits;  // by position
  std::vector<NamedTensor> tensors;
  std::string failed;  // why the engine refused the request
  double done_s = 0;
  // Distance to the baseline's answer, if compared. 0: equal; 1: different from the first token on.
  double apart = 0;
};
using Answers = std::map<uint64_t, RequestResult>;  // by the id of the request

// Source of requests and target of results. Engines call it from one thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Gets the next request that has arrived; false: none now. With `wait`, blocks until one arrives;
  // false then means that no more will come.
  virtual bool next(Request& request, bool wait) = 0;
  // Token number `index` of a request (0 is the first after the prompt), in the order of choice.
  // `last`: the request has all its tokens.
  virtual void token(uint64_t id, int64_t index, int64_t token, bool last) = 0;
  // Before the first token of a request with shares_prefix: so many leading tokens of its prompt
  // were in the cache.
  virtual void shared(uint64_t /*id*/, int64_t /*tokens*/) {}
  // Logits of position `position` (0 is the first prompt token): `count` values in float32.
  virtual void logits(uint64_t id, int64_t position, const float* values, int64_t count) = 0;
  // A named result, float32 row-major.
  virtual void tensor(uint64_t id, const std::string& name, const std::vector<int64_t>& shape,
                      const float* values) = 0;
  virtual void failed(uint64_t id, const std::string& why) = 0;
  // Called after each step. `what` is for example "prefill 512 tokens" or "decode 8 requests".
  virtual void progress(const std::string& what) = 0;
};

}  // namespace fk
