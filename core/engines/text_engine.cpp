// SPDX-License-Identifier: Apache-2.0
#include "core/engines/text_engine.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/text.hpp"

namespace fk {

namespace {

// True when the token could have been chosen: its logit is within `tolerance` of the largest one,
// or of the k-th for sampling.
bool token_follows(const std::vector<float>& logits, int64_t token, const Sampling& sampling,
                   double tolerance) {
  const double own = static_cast<double>(logits[static_cast<size_t>(token)]);
  if (sampling.temperature > 0) {
    if (sampling.top_k <= 0) return std::isfinite(own);
    const auto above = std::count_if(logits.begin(), logits.end(), [&](float v) {
      return static_cast<double>(v) > own + tolerance;
    });
    return above < sampling.top_k;
  }
  const float largest = *std::max_element(logits.begin(), logits.end());
  return own >= static_cast<double>(largest) - tolerance;
}

}  // namespace

RequestForm text_form(int64_t vocabulary, int64_t positions) {
  return {vocabulary, positions, {}, /*continues=*/true};
}

Request TextEngine::scored(Request request) const {
  request.prompt_logits = true;
  return request;
}

std::vector<NamedTensor> TextEngine::results(const RequestResult& r) const {
  const auto count = static_cast<int64_t>(r.request.tokens.size() + r.request.forced.size());
  NamedTensor out{"logits", {0, form().vocabulary}, {}};
  for (int64_t p = 0; p < count; ++p) {
    const auto it = r.logits.find(p);
    if (it == r.logits.end()) continue;
    ++out.shape[0];
    out.values.insert(out.values.end(), it->second.begin(), it->second.end());
  }
  std::vector<NamedTensor> all = r.tensors;
  all.push_back(std::move(out));
  return all;
}

Limits TextEngine::stressed(const Limits& limits, int64_t longest) const {
  Limits small = limits;
  // The engine's own limit: a draft's tree needs pages behind a request's own.
  if (contains(phases(), "prefill")) {
    small.max_batch = 1;
    const int64_t pages = axis_limit("prefill", "P", small);
    small.pages = pages + pages / 2;
    small.max_batch = limits.max_batch;
  }
  small.chunk_tokens = std::max<int64_t>(2, longest / 4);
  return small;
}

Request TextEngine::audit_request(const RequestResult& timed) const {
  Request request = timed.request;
  if (request.new_tokens > 0 && logits_ == Logits::of_next) {
    request.prompt_logits = true;
    request.first_logits = static_cast<int64_t>(request.tokens.size()) - 1;
    request.tokens.insert(request.tokens.end(), timed.tokens.begin(), timed.tokens.end() - 1);
    request.new_tokens = 0;
  } else {
    request.forced = timed.tokens;
    request.order = timed.order;
    request.logits = request.new_tokens > 0;
  }
  return request;
}

AuditedTokens TextEngine::audit(const RequestResult& timed, const RequestResult& oracle,
                                double tolerance) const {
  AuditedTokens out;
  const auto first =
      static_cast<int64_t>(timed.request.tokens.size()) - (logits_ == Logits::of_next ? 1 : 0);
  for (size_t i = 0; i < timed.tokens.size(); ++i) {
    const auto it = oracle.logits.find(first + static_cast<int64_t>(i));
    if (it == oracle.logits.end()) {
      out.unknown = true;
      return out;
    }
    ++out.checked;
    if (token_follows(it->second, timed.tokens[i], timed.request.sampling, tolerance)) continue;
    if (out.strange++ == 0)
      out.first = "token " + std::to_string(i) + " of request " + std::to_string(timed.request.id) +
                  " is " + std::to_string(timed.tokens[i]);
  }
  return out;
}

}  // namespace fk
