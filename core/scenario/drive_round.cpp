// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/drive_round.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr size_t kTensorsMax = 64;  // per request

// Takes one event in. Returns its fault, or empty.
std::string take_token(RequestResult& r, const RunnerEvent& event, const RoundOptions& options) {
  const auto count = static_cast<int64_t>(r.order.size());
  const auto index = static_cast<size_t>(event.index);
  if (count >= r.request.new_tokens) return "more tokens than were asked for";
  if (event.index < 0 || event.index >= r.request.new_tokens)
    return "token " + std::to_string(event.index) + ", which nobody asked for";
  if (index >= r.tokens.size()) r.tokens.resize(index + 1, -1);
  if (r.tokens[index] >= 0) return "token " + std::to_string(event.index) + " twice";
  if (event.token < 0 || event.token >= options.vocab_size) return "a token outside the vocabulary";
  if (event.last != (count + 1 == r.request.new_tokens)) return "a request that ends at random";
  r.tokens[index] = event.token;
  r.order.push_back(event.index);
  r.token_s.push_back(event.time_s);
  r.done_s = event.time_s;
  return {};
}

std::string take(Round& round, RunnerEvent& event, const RoundOptions& options) {
  if (event.kind == RunnerEvent::Kind::progress) {
    if (options.progress) options.progress(event.text);
    return {};
  }
  if (event.kind == RunnerEvent::Kind::tensor && event.id == 0) {
    constexpr size_t kTapsMax = 4096;
    if (!options.taps || round.taps.size() == kTapsMax) return "a tap that nobody asked for";
    round.taps.push_back(std::move(event.tensor));
    return {};
  }
  const auto it = round.requests.find(event.id);
  if (it == round.requests.end())
    return "a result for request " + std::to_string(event.id) + ", which does not exist";
  RequestResult& r = it->second;
  if (!r.failed.empty()) return "results of a request that failed";
  switch (event.kind) {
    case RunnerEvent::Kind::token:
      return take_token(r, event, options);
    case RunnerEvent::Kind::logits: {
      const auto length = static_cast<int64_t>(r.request.tokens.size()) + r.request.new_tokens;
      if (event.index < 0 || event.index >= length) return "logits of an impossible position";
      if (static_cast<int64_t>(event.values.size()) != options.vocab_size)
        return "logits that are not one per entry of the vocabulary";
      if (!r.request.logits && !r.request.prompt_logits) return "logits that nobody asked for";
      // A preempted request computes positions again; the last values count.
      r.logits[event.index] = std::move(event.values);
      return {};
    }
    case RunnerEvent::Kind::tensor:
      if (std::any_of(r.tensors.begin(), r.tensors.end(),
                      [&](const NamedTensor& t) { return t.name == event.tensor.name; }))
        return "the same tensor twice for one request";
      if (r.tensors.size() == kTensorsMax) return "too many tensors for one request";
      r.tensors.push_back(std::move(event.tensor));
      r.done_s = event.time_s;
      return {};
    case RunnerEvent::Kind::failed:
      r.failed = event.text.empty() ? "no reason given" : event.text;
      r.done_s = event.time_s;
      return {};
    default:
      return {};
  }
}

// Hands requests over when they arrive.
class Arrivals {
 public:
  Arrivals(RankGroup& runner, const std::vector<Request>& requests, const RoundOptions& options,
           Round& round)
      : runner_(runner), requests_(requests), times_(options.arrives_s), round_(round) {}

  // Submits the requests whose time has come. Returns seconds until the next one, at most 1.
  double submit(double now) {
    while (sent_ < requests_.size()) {
      const double due = times_.empty() ? 0 : round_.start_s + times_[sent_] - left_out_s_;
      if (due > now && ended_ == sent_) left_out_s_ += due - now;
      if (due > now && ended_ < sent_) return std::min(1.0, due - now);
      if (!times_.empty()) round_.arrived_s[requests_[sent_].id] = now;
      runner_.submit(requests_[sent_]);
      if (++sent_ == requests_.size()) runner_.close_requests();
    }
    return 1;
  }
  // After an event of a request.
  void note(const RunnerEvent& event) {
    using Kind = RunnerEvent::Kind;
    const auto it = round_.requests.find(event.id);
    if (it == round_.requests.end()) return;
    const bool whole = event.kind == Kind::tensor && it->second.request.new_tokens == 0 &&
                       it->second.tensors.size() == 1;
    ended_ += whole || event.kind == Kind::failed || (event.kind == Kind::token && event.last);
  }

 private:
  RankGroup& runner_;
  const std::vector<Request>& requests_;
  const std::vector<double>& times_;
  Round& round_;
  size_t sent_ = 0, ended_ = 0;
  double left_out_s_ = 0;
};

}  // namespace

bool drive_round(RankGroup& runner, const std::vector<Request>& requests,
                 const RoundOptions& options, Round& round) {
  for (const auto& request : requests) round.requests[request.id].request = request;
  if (!runner.begin(options.taps)) return false;
  round.start_s = now_seconds();
  Arrivals arrivals(runner, requests, options, round);
  if (requests.empty()) runner.close_requests();
  double last = round.start_s;
  for (;;) {
    auto event = runner.wait(arrivals.submit(now_seconds()));
    const double now = event ? event->time_s : now_seconds();
    if (event) {
      round.gap_s = std::max(round.gap_s, now - last);
      last = now;
    }
    if (runner.failed()) return false;
    if (options.time_limit_s > 0 && now - round.start_s > options.time_limit_s) {
      runner.condemn("hang", "was not done within " + human_duration(options.time_limit_s));
      return false;
    }
    if (!event) continue;
    if (event->kind == RunnerEvent::Kind::driven) break;
    if (const std::string wrong = take(round, *event, options); !wrong.empty()) {
      runner.condemn("protocol", "sent " + wrong);
      return false;
    }
    arrivals.note(*event);
  }
  round.end_s = round.start_s;
  for (const auto& [id, r] : round.requests) {
    round.end_s = std::max(round.end_s, r.done_s);
    const bool complete = static_cast<int64_t>(r.order.size()) == r.request.new_tokens;
    if (r.failed.empty() && !complete) {
      runner.condemn("protocol",
                     "said that it is done before request " + std::to_string(id) + " was");
      return false;
    }
  }
  return true;
}

}  // namespace fk
