// SPDX-License-Identifier: Apache-2.0
// A candidate beside the baseline under real traffic. Clients get the baseline's answers. A second
// model with the candidates gets the same requests at the same time. The report has differences of
// answers, and ratios of times with intervals. Both models share the device, so the ratios are no
// verdict.
#pragma once
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/endpoint/live_model.hpp"
#include "core/endpoint/mirror_document.hpp"

namespace fk {

class TrafficMirror {
 public:
  // `open_most`: requests that both models have; a further one goes to the baseline alone.
  explicit TrafficMirror(size_t open_most);
  ~TrafficMirror();
  TrafficMirror(const TrafficMirror&) = delete;

  // Both live until settle() has returned, and are gone before this object.
  void attach(LiveModel& baseline, LiveModel& candidate);

  // As of the baseline's LiveModel. [any thread]
  uint64_t submit(Request request, LiveModel::Listener listener);
  // The client has enough of the answer, which counts up to here. [any thread]
  void cancel(uint64_t id);

  // Waits until no request is open on either side, and hears no more. False: it was too long.
  bool settle(double seconds);
  MirrorReport report() const;  // [any thread]

 private:
  enum Of : size_t { kBaseline, kCandidate };
  struct Half {
    std::vector<int64_t> tokens;
    NamedTensor tensor;
    double first_s = 0, last_s = 0;  // from the submission
    bool ended = false;
    std::string failed;
  };
  struct Pair {
    Request request;
    int64_t number = 0;
    double begin_s = 0;
    uint64_t candidate_id = 0;
    std::optional<size_t> enough;  // tokens that the client took
    Half halves[2];
    bool closed = false;
  };
  using Shared = std::shared_ptr<Pair>;

  void hear(const Shared& pair, Of side, const RunnerEvent& event);
  void conclude(Pair& pair);
  void compare_times(const Pair& pair);
  void compare_tokens(const Pair& pair);
  // Asks the baseline for the logits at the first difference.
  void look_at(const Pair& pair, MirrorDifference difference);

  const size_t open_most_;
  LiveModel *baseline_ = nullptr, *candidate_ = nullptr;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable ended_;
  std::map<uint64_t, Shared> by_id_;  // open pairs by the baseline's id
  size_t open_ = 0, looks_ = 0;
  bool closed_ = false;
  MirrorReport counts_;
  // log(baseline's time / candidate's time) of each compared request
  std::vector<double> first_, next_, whole_;
};

}  // namespace fk
