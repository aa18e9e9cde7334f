// SPDX-License-Identifier: Apache-2.0
// Bodies of the OpenAI API as requests to a model. Each key is known, or an error that names it: a
// key without an effect here is taken only with the value that means "off".
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.hpp"
#include "core/exec/request.hpp"

namespace fk {

// A bad request: the key, and the fault in words. what() has both.
class BadRequest : public std::runtime_error {
 public:
  BadRequest(std::string key, const std::string& why, unsigned status = 400)
      : std::runtime_error(key.empty() ? why : "`" + key + "`: " + why),
        key_(std::move(key)),
        status_(status) {}
  const std::string& key() const { return key_; }
  unsigned status() const { return status_; }

 private:
  std::string key_;
  unsigned status_;
};

// The vector of a text from those of its tokens.
enum class Pooling : uint8_t { mean, first, last };

// Limits of a request, and the facts that it is checked against.
struct EndpointLimits {
  std::string model;  // its name for clients
  int64_t vocabulary = 0;
  int64_t context = 0;    // tokens of prompt and answer
  int64_t prompts = 64;   // of one request
  int64_t answers = 16;   // `n`
  int64_t logprobs = 20;  // of one position
  int64_t stops = 16;
  bool writes = true;          // the model completes texts; else it reads them
  bool shares_prefix = false;  // requests that begin equally share pages of the cache
  Pooling pooling = Pooling::mean;
  bool normalizes = true;  // embeddings have length 1
};

// One piece of a request: tokens, or a text that a tokenizer has to read.
struct Prompt {
  std::vector<int64_t> tokens;
  std::optional<std::string> text;
};

struct CompletionRequest {
  std::vector<Prompt> prompts;
  int64_t max_tokens = 16;
  bool max_tokens_given = false;
  int64_t n = 1;
  Sampling sampling;
  std::optional<uint64_t> seed;
  std::optional<int64_t> logprobs;  // the number of other tokens for each position
  std::vector<std::string> stop;
  std::vector<int64_t> stop_tokens;
  bool chat = false;  // the answer is a message
  bool stream = false, usage = false, echo = false, ignore_eos = false, token_ids = false;
};

// BadRequest for all that is wrong with the body.
CompletionRequest completion_request(const Json& body, const EndpointLimits& limits);

// A conversation, for a template to make a prompt of.
struct ChatRequest {
  CompletionRequest completion;  // without a prompt
  Json messages, tools, variables;
  bool add_generation_prompt = true;
};
ChatRequest chat_request(const Json& body, const EndpointLimits& limits);

struct EmbeddingRequest {
  std::vector<Prompt> inputs;
  bool base64 = false;
};
EmbeddingRequest embedding_request(const Json& body, const EndpointLimits& limits);

// A body as JSON. BadRequest when it is none.
Json parse_body(std::string_view body);

}  // namespace fk
