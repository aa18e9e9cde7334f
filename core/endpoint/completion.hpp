// SPDX-License-Identifier: Apache-2.0
// One completion of a client: its prompts and answers while the model works on them, and its body,
// whole or as server-sent events.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "core/endpoint/completion_request.hpp"
#include "core/endpoint/endpoint_metrics.hpp"
#include "core/endpoint/live_model.hpp"
#include "core/endpoint/mirror.hpp"
#include "core/endpoint/traffic_recorder.hpp"
#include "core/service/http_app.hpp"
#include "core/text/tokenizer.hpp"

namespace fk {

// The parts that all requests share.
struct EndpointParts {
  LiveModel& model;
  EndpointMetrics& metrics;
  const EndpointLimits& limits;
  const std::vector<int64_t>& eos;
  const text::Tokenizer* tokenizer = nullptr;  // null: requests and answers have numbers
  TrafficMirror* mirror = nullptr;             // null: the model alone gets requests
  TrafficRecorder* recorder = nullptr;         // null: requests are not kept

  uint64_t submit(Request request, LiveModel::Listener listener) const {
    request.shares_prefix = limits.shares_prefix;
    return mirror ? mirror->submit(std::move(request), std::move(listener))
                  : model.submit(std::move(request), std::move(listener));
  }
  void cancel(uint64_t id) const { mirror ? mirror->cancel(id) : model.cancel(id); }
};

// An error in the form of the OpenAI API.
ApiAnswer openai_error(unsigned status, const std::string& message, const std::string& key = "");

// Submits the request's prompts, whose tokens are known. BadRequest when one does not fit the
// model. When the body is destroyed before its end, its requests are cancelled.
ApiAnswer begin_completion(const EndpointParts& parts, CompletionRequest request);
ApiAnswer begin_embedding(const EndpointParts& parts, EmbeddingRequest request);

}  // namespace fk
