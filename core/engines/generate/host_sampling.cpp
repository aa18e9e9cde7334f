// SPDX-License-Identifier: Apache-2.0
#include "core/engines/generate/host_sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fk {

namespace {

// The first index at which the running sum reaches `share` of the total, or exceeds it.
size_t share_of(const std::vector<double>& mass, size_t count, double share, bool exceeds) {
  const auto end = mass.begin() + static_cast<ptrdiff_t>(count);
  const double wanted = share * std::accumulate(mass.begin(), end, 0.0);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += mass[i];
    if (exceeds ? sum > wanted : sum >= wanted) return i;
  }
  return count - 1;
}

}  // namespace

int64_t HostSampler::choose(std::span<float> logits, const std::vector<int64_t>& tokens,
                            int64_t prompt, const Sampling& s, float uniform) {
  said_.resize(logits.size());
  const auto logit = [&](int64_t token) -> float& { return logits[static_cast<size_t>(token)]; };
  if (s.repetition_penalty != 1) {
    order_ = tokens;  // each token once
    std::ranges::sort(order_);
    order_.erase(std::unique(order_.begin(), order_.end()), order_.end());
    for (const int64_t token : order_)
      logit(token) *= logit(token) > 0 ? 1 / s.repetition_penalty : s.repetition_penalty;
  }
  for (auto at = tokens.begin() + prompt; at != tokens.end(); ++at) {
    logit(*at) -= s.frequency_penalty;
    if (said_[static_cast<size_t>(*at)]++ == 0) logit(*at) -= s.presence_penalty;
  }
  for (auto at = tokens.begin() + prompt; at != tokens.end(); ++at)
    said_[static_cast<size_t>(*at)] = 0;
  const auto top = std::ranges::max_element(logits);
  if (s.temperature <= 0) return top - logits.begin();
  const auto above = [&](int64_t a, int64_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  };
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), int64_t{0});
  const double largest = static_cast<double>(*top),
               temperature = static_cast<double>(s.temperature);
  const auto mass = [&](int64_t token) {
    return std::exp((static_cast<double>(logit(token)) - largest) / temperature);
  };
  if (s.min_p > 0)
    std::erase_if(order_, [&](int64_t t) { return mass(t) < static_cast<double>(s.min_p); });
  size_t kept = order_.size();
  if (s.top_k > 0) kept = std::min(kept, static_cast<size_t>(s.top_k));
  std::partial_sort(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(kept), order_.end(),
                    above);
  mass_.resize(kept);
  for (size_t i = 0; i < kept; ++i) mass_[i] = mass(order_[i]);
  if (s.top_p < 1) kept = share_of(mass_, kept, static_cast<double>(s.top_p), false) + 1;
  return order_[share_of(mass_, kept, static_cast<double>(uniform), true)];
}

}  // namespace fk
