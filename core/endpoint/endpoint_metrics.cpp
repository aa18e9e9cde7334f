// SPDX-License-Identifier: Apache-2.0
#include "core/endpoint/endpoint_metrics.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

// Seconds, as vLLM has them.
constexpr double kFirstBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                   0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                   20,    40,    80,   160,  640,  2560};
constexpr double kNextBounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                  0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
constexpr double kWholeBounds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                   30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};

std::string quoted_label(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return '"' + out + '"';
}

std::string family(const char* name, const char* kind, const char* help) {
  return std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + kind + "\n";
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds), counts_(bounds.size() + 1) {}

void Histogram::add(double value) {
  const auto at = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<size_t>(at)];
  sum_ += value;
}

std::string Histogram::text(const std::string& name, const std::string& labels) const {
  std::string out;
  uint64_t count = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < bounds_.size() ? Json(bounds_[i]).dump() : "+Inf";
    out += name + "_bucket{" + labels + ",le=\"" + bound + "\"} " + std::to_string(count) + "\n";
  }
  return out + name + "_sum{" + labels + "} " + Json(sum_).dump() + "\n" + name + "_count{" +
         labels + "} " + std::to_string(count) + "\n";
}

EndpointMetrics::EndpointMetrics(const std::string& model)
    : labels_("model_name=" + quoted_label(model)),
      first_token_(kFirstBounds),
      next_token_(kNextBounds),
      whole_(kWholeBounds) {}

void EndpointMetrics::begin(int64_t prompt_tokens) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += prompt_tokens;
}

void EndpointMetrics::prefix(int64_t tokens, int64_t hits) {
  const std::lock_guard lock(mutex_);
  prefix_tokens_ += tokens;
  prefix_hits_ += hits;
}

void EndpointMetrics::token(bool first, double seconds) {
  const std::lock_guard lock(mutex_);
  ++generation_tokens_;
  (first ? first_token_ : next_token_).add(seconds);
}

void EndpointMetrics::end(const std::string& reason, double seconds) {
  const std::lock_guard lock(mutex_);
  ++ended_[reason];
  whole_.add(seconds);
}

void EndpointMetrics::answered(unsigned status) {
  const std::lock_guard lock(mutex_);
  ++answers_[status];
}

std::string EndpointMetrics::text(const LiveModel::State& state) const {
  const std::lock_guard lock(mutex_);
  const auto line = [&](const char* name, const std::string& more, int64_t value) {
    return std::string(name) + "{" + labels_ + more + "} " + std::to_string(value) + "\n";
  };
  std::string out = family("vllm:num_requests_running", "gauge", "Requests with a first token.");
  out += line("vllm:num_requests_running", "", state.running);
  out += family("vllm:num_requests_waiting", "gauge", "Requests without a token.");
  out += line("vllm:num_requests_waiting", "", state.waiting);
  out += family("vllm:prompt_tokens_total", "counter", "Tokens of prompts.");
  out += line("vllm:prompt_tokens_total", "", prompt_tokens_);
  out += family("vllm:generation_tokens_total", "counter", "Tokens of answers.");
  out += line("vllm:generation_tokens_total", "", generation_tokens_);
  out += family("vllm:prefix_cache_queries_total", "counter",
                "Tokens of prompts that were looked up in the cache.");
  out += line("vllm:prefix_cache_queries_total", "", prefix_tokens_);
  out += family("vllm:prefix_cache_hits_total", "counter", "Tokens among them that it had.");
  out += line("vllm:prefix_cache_hits_total", "", prefix_hits_);
  out += family("vllm:request_success_total", "counter", "Answers that ended, by reason.");
  for (const auto& [reason, count] : ended_)
    out += line("vllm:request_success_total", ",finished_reason=\"" + reason + "\"", count);
  const auto histogram = [&](const char* name, const char* help, const Histogram& h) {
    out += family(name, "histogram", help) + h.text(name, labels_);
  };
  histogram("vllm:time_to_first_token_seconds", "From the request to its first token.",
            first_token_);
  histogram("vllm:inter_token_latency_seconds", "Between two tokens of an answer.", next_token_);
  histogram("vllm:e2e_request_latency_seconds", "From the request to its last token.", whole_);
  out += family("fk_model_restarts_total", "counter", "Starts of a process after a dead one.");
  out += line("fk_model_restarts_total", "", state.restarts);
  out += family("fk_http_answers_total", "counter", "Answers by code, since the server began.");
  for (const auto& [status, count] : answers_)
    out += line("fk_http_answers_total", ",code=\"" + std::to_string(status) + "\"", count);
  return out;
}

}  // namespace fk
