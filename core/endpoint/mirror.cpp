// SPDX-License-Identifier: Apache-2.0
#include "core/endpoint/mirror.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/text.hpp"
#include "core/measure/race_clock.hpp"

namespace fk {

namespace {

constexpr size_t kDifferencesMost = 64, kFailuresMost = 8, kLooksMost = 4, kBlocks = 20;
constexpr double kBand = 0.02;          // a ratio within it counts as the same speed
constexpr double kVectorsEqual = 1e-3;  // distance over length
constexpr size_t kTimesMost = 1 << 20;  // compared requests whose times are kept

// Neighbours share batches, so their times depend on each other. Means of blocks of neighbours do
// so much less.
std::optional<Ratio> ratio_in_blocks(const std::vector<double>& logs) {
  if (logs.empty()) return std::nullopt;
  const size_t count = std::min(kBlocks, logs.size());
  std::vector<double> means(count);
  for (size_t b = 0; b < count; ++b) {
    const size_t from = b * logs.size() / count, to = (b + 1) * logs.size() / count;
    for (size_t i = from; i < to; ++i) means[b] += logs[i] / static_cast<double>(to - from);
  }
  return ratio_of(means, kBand);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double apart = 0, length = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double from = static_cast<double>(a[i]), to = static_cast<double>(b[i]);
    apart += (from - to) * (from - to), length += from * from;
  }
  return std::sqrt(apart / std::max(length, 1e-300));
}

}  // namespace

TrafficMirror::TrafficMirror(size_t open_most) : open_most_(open_most) {}
TrafficMirror::~TrafficMirror() = default;

void TrafficMirror::attach(LiveModel& baseline, LiveModel& candidate) {
  baseline_ = &baseline;
  candidate_ = &candidate;
}

uint64_t TrafficMirror::submit(Request request, LiveModel::Listener listener) {
  {
    const std::lock_guard lock(mutex_);
    if (open_ >= open_most_) {
      ++counts_.left_out;
      return baseline_->submit(std::move(request), std::move(listener));
    }
  }
  const auto pair = std::make_shared<Pair>();
  pair->request = request;
  pair->begin_s = now_seconds();
  // The lock keeps results away until the pair has its ids. A listener takes its own lock alone.
  const std::lock_guard lock(mutex_);
  ++open_;
  pair->number = ++counts_.requests;
  const uint64_t id =
      baseline_->submit(request, [this, pair, listener = std::move(listener)](RunnerEvent& event) {
        hear(pair, kBaseline, event);
        listener(event);
      });
  pair->candidate_id = candidate_->submit(
      std::move(request), [this, pair](RunnerEvent& event) { hear(pair, kCandidate, event); });
  by_id_[id] = pair;
  pair->request.id = id;
  return id;
}

void TrafficMirror::cancel(uint64_t id) {
  baseline_->cancel(id);
  const std::lock_guard lock(mutex_);
  const auto at = by_id_.find(id);
  if (at == by_id_.end()) return;
  Pair& pair = *at->second;
  Half& own = pair.halves[kBaseline];
  own.ended = true;
  pair.enough = own.tokens.size();
  Half& other = pair.halves[kCandidate];
  if (other.tokens.size() >= *pair.enough && !other.ended) {
    other.ended = true;
    candidate_->cancel(pair.candidate_id);
  }
  if (other.ended) conclude(pair);
}

void TrafficMirror::hear(const Shared& pair, Of side, const RunnerEvent& event) {
  using Kind = RunnerEvent::Kind;
  const std::lock_guard lock(mutex_);
  Half& half = pair->halves[side];
  if (closed_ || half.ended || event.kind == Kind::logits || event.kind == Kind::shared) return;
  half.last_s = event.time_s - pair->begin_s;
  if (event.kind == Kind::failed) {
    half.ended = true;
    half.failed = event.text;
  } else if (event.kind == Kind::tensor) {
    half.first_s = half.last_s;
    half.tensor = event.tensor;
    half.ended = true;
  } else {
    if (half.tokens.empty()) half.first_s = half.last_s;
    half.tokens.push_back(event.token);
    half.ended = event.last;
    if (side == kCandidate && !half.ended && half.tokens.size() == pair->enough) {
      half.ended = true;
      candidate_->cancel(pair->candidate_id);
    }
  }
  if (side == kBaseline && !half.failed.empty() && !pair->halves[kCandidate].ended) {
    pair->halves[kCandidate].ended = true;  // there is nothing to compare it with
    candidate_->cancel(pair->candidate_id);
  }
  if (pair->halves[kBaseline].ended && pair->halves[kCandidate].ended) conclude(*pair);
}

// The lock is held.
void TrafficMirror::conclude(Pair& pair) {
  if (std::exchange(pair.closed, true)) return;
  --open_;
  by_id_.erase(pair.request.id);
  const Half &own = pair.halves[kBaseline], &other = pair.halves[kCandidate];
  if (!own.failed.empty() || pair.enough == size_t{0}) {
    --counts_.requests;
  } else if (!other.failed.empty()) {
    --counts_.requests;
    ++counts_.failed;
    const std::string why = excerpt(other.failed, 300);
    if (counts_.failures.size() < kFailuresMost && !contains(counts_.failures, why))
      counts_.failures.push_back(why);
  } else if (!own.tensor.values.empty() || !other.tensor.values.empty()) {
    const bool same_size = own.tensor.values.size() == other.tensor.values.size();
    const double apart = same_size ? distance(own.tensor.values, other.tensor.values) : 1;
    counts_.vectors_apart = std::max(counts_.vectors_apart.value_or(0), apart);
    ++(apart <= kVectorsEqual ? counts_.equal : counts_.different);
    compare_times(pair);
  } else {
    compare_tokens(pair);
  }
  ended_.notify_all();
}

void TrafficMirror::compare_times(const Pair& pair) {
  const Half &own = pair.halves[kBaseline], &other = pair.halves[kCandidate];
  if (whole_.size() == kTimesMost) return;
  const auto add = [](std::vector<double>& to, double base, double candidate) {
    if (base > 0 && candidate > 0) to.push_back(std::log(base / candidate));
  };
  if (own.tokens.empty()) return add(whole_, own.last_s, other.last_s);
  add(first_, own.first_s, other.first_s);
  // Different answers may end at different places, and need different work.
  if (own.tokens != other.tokens) return;
  add(whole_, own.last_s, other.last_s);
  if (own.tokens.size() > 1) add(next_, own.last_s - own.first_s, other.last_s - other.first_s);
}

void TrafficMirror::compare_tokens(const Pair& pair) {
  const auto &own = pair.halves[kBaseline].tokens, &other = pair.halves[kCandidate].tokens;
  const size_t count = std::min({own.size(), other.size(), pair.enough.value_or(own.size())});
  const auto begin = own.begin(), end = begin + static_cast<ptrdiff_t>(count);
  const auto [left, right] = std::mismatch(begin, end, other.begin());
  counts_.tokens += static_cast<int64_t>(count);
  counts_.equal_tokens += left - begin;
  compare_times(pair);
  if (left == end) {
    ++counts_.equal;
    return;
  }
  ++counts_.different;
  if (counts_.differences.size() + looks_ >= kDifferencesMost) return;
  const Sampling& sampling = pair.request.sampling;
  MirrorDifference found{pair.number,  static_cast<int64_t>(pair.request.tokens.size()),
                         left - begin, *left,
                         *right,       sampling.temperature > 0,
                         std::nullopt};
  if (sampling.on_host() || looks_ >= kLooksMost)
    counts_.differences.push_back(found);
  else
    look_at(pair, found);
}

void TrafficMirror::look_at(const Pair& pair, MirrorDifference found) {
  ++looks_;
  Request ask;
  ask.tokens = pair.request.tokens;
  const auto& own = pair.halves[kBaseline].tokens;
  ask.tokens.insert(ask.tokens.end(), own.begin(), own.begin() + found.index);
  ask.new_tokens = 1;
  ask.logits = true;
  baseline_->submit(std::move(ask), [this, found](RunnerEvent& event) mutable {
    const std::lock_guard lock(mutex_);
    if (event.kind == RunnerEvent::Kind::logits) {
      const auto logit = [&](int64_t token) {
        return static_cast<double>(event.values.at(static_cast<size_t>(token)));
      };
      found.apart = logit(found.baseline) - logit(found.candidate);
      return;
    }
    if (event.kind == RunnerEvent::Kind::shared) return;
    --looks_;
    counts_.differences.push_back(found);
    ended_.notify_all();
  });
}

bool TrafficMirror::settle(double seconds) {
  std::unique_lock lock(mutex_);
  const bool ended = ended_.wait_for(lock, std::chrono::duration<double>(seconds),
                                     [&] { return open_ == 0 && looks_ == 0; });
  closed_ = true;
  return ended;
}

MirrorReport TrafficMirror::report() const {
  const std::lock_guard lock(mutex_);
  MirrorReport out = counts_;
  out.open = static_cast<int64_t>(open_);
  out.requests -= out.open;
  out.first_token = ratio_in_blocks(first_);
  out.next_token = ratio_in_blocks(next_);
  out.whole = ratio_in_blocks(whole_);
  if (candidate_) out.restarts = candidate_->state().restarts;
  return out;
}

}  // namespace fk
