// SPDX-License-Identifier: Apache-2.0
#include "core/endpoint/live_model.hpp"

#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/worker/ring.hpp"

namespace fk {

namespace {

constexpr double kLookSeconds = 1;  // the waker ends a wait earlier
constexpr double kIdleLook = 0.5;
constexpr double kLookOfRanks = 0.002;  // ranks do not watch the waker
constexpr int kRestSecondsMost = 30;    // between two starts of a worker

// True when the process of a rank of this machine has ended. A launcher's child is nobody's to wait
// for here: its end shows at the next request.
bool has_exited(const RankGroup& workers) {
  const auto here = static_cast<int>(ranks_here(workers.size()));
  for (int rank = 0; rank < here; ++rank) {
    siginfo_t found{};
    const int failed =
        ::waitid(P_PID, static_cast<id_t>(workers.pid(rank)), &found, WEXITED | WNOHANG | WNOWAIT);
    if (failed == 0 && found.si_pid != 0) return true;
    if (failed != 0 && errno != ECHILD) return true;
  }
  return false;
}

RunnerEvent failure_of(uint64_t id, const std::string& why) {
  RunnerEvent event;
  event.kind = RunnerEvent::Kind::failed;
  event.id = id;
  event.text = why;
  return event;
}

}  // namespace

LiveModel::LiveModel(Setup setup)
    : setup_(std::move(setup)), side_([this] {
        waker_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (waker_ < 0) fail_host("the model", "cannot be woken: " + errno_text());
        setup_.side.runner.waker = waker_;
        return setup_.side;
      }()) {}

LiveModel::~LiveModel() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
  ::close(waker_);
}

bool LiveModel::open() {
  if (!side_.open()) return false;
  {
    const std::lock_guard lock(mutex_);
    state_.ready = true;
  }
  thread_ = std::thread([this] { work(); });
  return true;
}

void LiveModel::wake() {
  news_.notify_one();
  const uint64_t one = 1;
  (void)!::write(waker_, &one, sizeof one);
}

uint64_t LiveModel::submit(Request request, Listener listener) {
  uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = request.id = ++last_id_;
    inbox_.emplace_back(id, Live{std::move(request), std::move(listener)});
  }
  wake();
  return id;
}

void LiveModel::cancel(uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(id);
  }
  wake();
}

LiveModel::State LiveModel::state() const {
  const std::lock_guard lock(mutex_);
  State out = state_;
  out.waiting += static_cast<int64_t>(inbox_.size());
  return out;
}

void LiveModel::note() {
  const std::lock_guard lock(mutex_);
  state_.running = std::ranges::count_if(live_, [](const auto& l) { return l.second.taken > 0; });
  state_.waiting = static_cast<int64_t>(live_.size()) - state_.running;
}

// A worker that dies between two requests is replaced before the next one: nobody may send it while
// /health is 503.
void LiveModel::work() {
  for (;;) {
    bool asked = false;
    {
      std::unique_lock lock(mutex_);
      asked = news_.wait_for(lock, std::chrono::duration<double>(kIdleLook), [&] {
        return closing_ || !inbox_.empty() || !cancelled_.empty() || !live_.empty();
      });
      if (closing_) return;
    }
    if (!asked && side_.is_open() && !has_exited(side_.awake())) continue;
    if (!side_.is_open() && !reopen()) return;
    drive();
  }
}

// Repeats the start of a worker until one runs. False: the server ends.
bool LiveModel::reopen() {
  for (int rest_s = 1;; rest_s = std::min(2 * rest_s, kRestSecondsMost)) {
    if (side_.open()) break;
    setup_.says("the model cannot be opened again: " + side_.why());
    fail_all("the model cannot be started again: " + side_.why());
    std::unique_lock lock(mutex_);
    news_.wait_for(lock, std::chrono::seconds(rest_s), [&] { return closing_; });
    if (closing_) return false;
  }
  setup_.says("the model runs again");
  const std::lock_guard lock(mutex_);
  state_.ready = true;
  ++state_.restarts;
  return true;
}

// Nobody knows when a worker runs again, so no client waits for it.
void LiveModel::fail_all(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, live] : inbox_) live_.emplace(id, std::move(live));
    inbox_.clear();
    cancelled_.clear();
  }
  while (!live_.empty()) {
    RunnerEvent event = failure_of(live_.begin()->first, why);
    end(live_.begin(), event);
  }
}

void LiveModel::take_inbox(RankGroup& workers) {
  drain_event(waker_);
  std::vector<std::pair<uint64_t, Live>> fresh;
  std::vector<uint64_t> cancelled;
  {
    const std::lock_guard lock(mutex_);
    fresh.swap(inbox_);
    cancelled.swap(cancelled_);
    state_.waiting += static_cast<int64_t>(fresh.size());
  }
  for (auto& [id, live] : fresh) {
    if (std::ranges::find(cancelled, id) != cancelled.end()) continue;
    workers.submit(live.request);
    live_.emplace(id, std::move(live));
  }
  for (const uint64_t id : cancelled) {
    const auto at = live_.find(id);
    if (at == live_.end()) continue;
    gone_.insert(id);
    live_.erase(at);
    if (!setup_.cancels) continue;
    Request ends;
    ends.id = id;
    ends.cancels = true;
    workers.submit(ends);
  }
  note();
}

// A drive lasts until nothing is left to do. A worker is silent only in its absence, so silence in
// a drive is a hang.
void LiveModel::drive() {
  RankGroup& workers = side_.awake();
  bool ok = workers.begin(false), closed = false;
  for (auto& [id, live] : live_) workers.submit(live.request);  // of a worker that died
  while (ok) {
    {
      const std::lock_guard lock(mutex_);
      if (closing_) {
        workers.dismiss();
        return;
      }
    }
    if (!closed) take_inbox(workers);
    if (!closed && live_.empty() && gone_.empty()) {
      workers.close_requests();
      closed = true;
    }
    auto event = workers.wait(workers.size() > 1 ? kLookOfRanks : kLookSeconds);
    ok = !workers.failed();
    if (!event) continue;
    if (event->kind == RunnerEvent::Kind::driven) {
      if (closed) return;
      workers.condemn("protocol", "ended its work while requests are open");
    } else if (const std::string wrong = take(*event); !wrong.empty()) {
      workers.condemn("protocol", "sent " + wrong);
    }
    ok = !workers.failed();
  }
  lose_worker();
}

std::string LiveModel::take(RunnerEvent& event) {
  using Kind = RunnerEvent::Kind;
  if (event.kind == Kind::progress) return {};
  const auto at = live_.find(event.id);
  if (at == live_.end()) {
    const auto lost = gone_.find(event.id);
    if (lost == gone_.end())
      return "a result for request " + std::to_string(event.id) + ", which does not exist";
    if (event.last || event.kind == Kind::failed || event.kind == Kind::tensor) gone_.erase(lost);
    return {};
  }
  Live& live = at->second;
  if (event.kind == Kind::token) {
    if (event.index != live.taken) return "token " + std::to_string(event.index) + " out of order";
    if (event.token < 0 || event.token >= setup_.vocabulary)
      return "a token outside the vocabulary";
    if (++live.taken > live.request.new_tokens) return "more tokens than were asked for";
    if (live.taken == live.request.new_tokens && !event.last) return "a last token without an end";
    if (!event.last) {
      live.listener(event);
      if (live.taken == 1) note();
      return {};
    }
  } else if (event.kind == Kind::logits) {
    if (!live.request.logits) return "logits that were not asked for";
    if (static_cast<int64_t>(event.values.size()) != setup_.vocabulary)
      return "logits that are not one per entry of the vocabulary";
    live.listener(event);
    return {};
  } else if (event.kind == Kind::shared) {
    const auto prompt = static_cast<int64_t>(live.request.tokens.size());
    if (!live.request.shares_prefix || live.taken > 0 || event.index < 0 || event.index >= prompt ||
        std::exchange(live.knows_shared, true))
      return "shared tokens that cannot be";
    live.listener(event);
    return {};
  } else if (event.kind == Kind::tensor && live.request.new_tokens > 0) {
    return "a tensor that was not asked for";
  }
  end(at, event);
  return {};
}

void LiveModel::end(std::map<uint64_t, Live>::iterator at, RunnerEvent& event) {
  const Listener listener = std::move(at->second.listener);
  live_.erase(at);
  note();
  listener(event);
}

void LiveModel::lose_worker() {
  side_.bury();
  gone_.clear();
  {
    const std::lock_guard lock(mutex_);
    state_.ready = false;
  }
  setup_.says("the model's process has ended: " + side_.why());
  for (auto at = live_.begin(); at != live_.end();) {
    Live& live = at->second;
    const auto next = std::next(at);
    if (live.taken > 0 || std::exchange(live.again, true)) {
      RunnerEvent event =
          failure_of(at->first, "the model's process has ended and starts again: " + side_.why());
      end(at, event);
    } else {
      live.knows_shared = false;
    }
    at = next;
  }
}

}  // namespace fk
