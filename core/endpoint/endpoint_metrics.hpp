// SPDX-License-Identifier: Apache-2.0
// Counts and times of an endpoint for Prometheus. Where vLLM measures the same thing, the name and
// the buckets are vLLM's.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/endpoint/live_model.hpp"

namespace fk {

class Histogram {
 public:
  // `bounds` ascend and outlive the histogram.
  explicit Histogram(std::span<const double> bounds);
  void add(double value);
  std::string text(const std::string& name, const std::string& labels) const;

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;  // one more than bounds
  double sum_ = 0;
};

// Each call is for any thread.
class EndpointMetrics {
 public:
  explicit EndpointMetrics(const std::string& model);
  void begin(int64_t prompt_tokens);
  // A prompt was looked up in the cache, which had its first `hits` tokens.
  void prefix(int64_t tokens, int64_t hits);
  // A token of an answer. `first`: seconds since the request came; else since the token before.
  void token(bool first, double seconds);
  // The end of an answer: "stop", "length", "abort" or "error".
  void end(const std::string& reason, double seconds);
  void answered(unsigned status);
  std::string text(const LiveModel::State& state) const;

 private:
  const std::string labels_;  // model_name="..."
  mutable std::mutex mutex_;
  int64_t prompt_tokens_ = 0, generation_tokens_ = 0, prefix_tokens_ = 0, prefix_hits_ = 0;
  std::map<std::string, int64_t> ended_;
  std::map<unsigned, int64_t> answers_;
  Histogram first_token_, next_token_, whole_;
};

}  // namespace fk
