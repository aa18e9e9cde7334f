// SPDX-License-Identifier: Apache-2.0
// Every operation runs in one thread for each rank. After each one, look_for_failures() finds the
// rank at fault among those that report something, and ends all ranks.
#include "core/worker/rank_group.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/text.hpp"
#include "core/worker/launch.hpp"
#include "core/worker/process.hpp"
#include "core/worker/remote/remote_runner.hpp"

namespace fk {

namespace {

constexpr double kSlice = 0.02;  // seconds between two checks of the other ranks
// Time in which other ranks must report, because their devices may wait for an ended rank.
constexpr double kOthersSpeakS = 1;

// A rank that reports a missing or failed rank is not at fault itself.
bool is_own_fault(const RunnerFailure& f) {
  return f.kind != "op_failed" && f.kind != "refused" && f.kind != "stopped";
}

// True if it has not failed by itself: it runs, or was stopped before it could report.
bool still_at_work(const RankRunner& r) {
  return !r.failed() || r.failure().kind == "hang" || r.failure().kind == "stopped";
}

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

// Makes a copy of the ranks' block on every other machine, and a mirror which keeps all copies
// equal.
void RankGroup::make_far_blocks(int size) {
  if (size == 1) return;
  std::vector<BlockMirror::Peer> peers;
  for (const auto& machine : machines()) {
    auto& far = far_blocks_.emplace_back(std::make_unique<FarBlock>());
    far->machine = machine.get();
    try {
      peers.push_back(
          {machine->open(message_json(messages::OpenBlock{size}), far->id), machine->ranks()});
    } catch (...) {
      for (const auto& peer : peers) ::close(peer.fd);
      throw;
    }
  }
  if (!peers.empty()) mirror_ = std::make_unique<BlockMirror>(block_, size, std::move(peers));
}

RankGroup::RankGroup(const Runner::Options& options, int size) {
  tokens_.resize(static_cast<size_t>(size));
  compared_.resize(static_cast<size_t>(size));
  driven_.resize(static_cast<size_t>(size));
  if (size > 1) block_ = make_shared_comm(size);  // throws Error if the machine lacks the memory
  try {
    make_far_blocks(size);
  } catch (const Error& e) {
    failure_ = RunnerFailure{"environment", "", e.what(), ""};
    return;
  }
  for (int r = 0; r < size; ++r) {
    Runner::Options own = options;
    if (size > 1) {
      own.name += " rank " + std::to_string(r);
      own.agent = agent_of_rank(r);
      own.missed = [this, missing = "rank " + std::to_string(r) + " "] {
        const std::string why = meeting_failure(meeting_board(block_));
        const bool its = starts_with(why, missing + kDidNotCome);
        return its ? why.substr(missing.size()) : std::string();
      };
    }
    local_.push_back(nullptr);
    Machine* machine = size > 1 ? machine_of_rank(r) : nullptr;
    if (!machine) {
      auto runner = std::make_unique<Runner>(std::move(own));
      local_.back() = runner.get();
      ranks_.push_back(std::move(runner));
      continue;
    }
    const auto is_its = [&](const auto& far) { return far->machine == machine; };
    const auto far = std::find_if(far_blocks_.begin(), far_blocks_.end(), is_its);
    ranks_.push_back(std::make_unique<RemoteRunner>(own, *machine, r, (*far)->id));
  }
  if (!look_for_failures() || size == 1) return;
  // The device must give up before the meeting does: its report names the missing rank.
  const double patience = std::min(kPatienceS, 0.4 * options.patience_s);
  device_wait_s_ = 0.9 * std::min(kDeviceWaitS, patience);
  std::vector<std::vector<int>> sockets(static_cast<size_t>(size));
  if (options.device != "cpu" && !mirror_) sockets = make_peer_sockets(size);
  on_all([&](RankRunner& runner, int rank) {
    runner.join(seat_of_rank(rank, size), block_.fd(), sockets[static_cast<size_t>(rank)],
                patience);
  });
  for (const auto& row : sockets)
    for (const int fd : row)
      if (fd >= 0) ::close(fd);
}

void RankGroup::tell_others(int rank) {
  if (size() == 1) return;
  const RunnerFailure& failure = ranks_[static_cast<size_t>(rank)]->failure();
  // If this rank only reports a missing one, the missing rank ends by its own patience.
  const double stop_s = is_own_fault(failure) ? kOthersSpeakS : Meeting::kNoLimit;
  for (auto& runner : ranks_) runner->another_failed(stop_s);
  end_meeting(meeting_board(block_), rank_name(rank) + ": " + failure.sentence());
}

bool RankGroup::on_all(const std::function<void(RankRunner&, int)>& work) {
  if (failed()) return false;
  const auto one = [&](int rank) {
    RankRunner& runner = *ranks_[static_cast<size_t>(rank)];
    try {
      work(runner, rank);
    } catch (const std::exception& e) {  // it would end the host: other threads are running
      runner.condemn("protocol", e.what());
    }
    if (runner.failed()) tell_others(rank);
  };
  std::vector<std::thread> threads;
  for (int r = 1; r < size(); ++r) threads.emplace_back(one, r);
  one(0);
  for (auto& thread : threads) thread.join();
  return look_for_failures();
}

// The first rank with a fault of its own; without one, the first rank that reports a failure.
int RankGroup::at_fault() const {
  // Order of blame: first the ranks at fault, and among these the earliest report.
  const auto later = [](const RunnerFailure& f) { return std::pair(!is_own_fault(f), f.time_s); };
  int first = -1;
  for (int r = 0; r < size(); ++r) {
    if (!ranks_[static_cast<size_t>(r)]->failed()) continue;
    if (first < 0 || later(ranks_[static_cast<size_t>(r)]->failure()) <
                         later(ranks_[static_cast<size_t>(first)]->failure()))
      first = r;
  }
  return first;
}

double RankGroup::silence(int rank) const {
  const RankRunner& runner = *ranks_[static_cast<size_t>(rank)];
  return runner.failed() ? runner.failure().silent_s : runner.silent_s();
}

int RankGroup::missed_by(int rank) const {
  const RankRunner& first = *ranks_[static_cast<size_t>(rank)];
  if (size() == 1 || first.failure().waited_s < device_wait_s_) return -1;
  for (int r = 0; r < size(); ++r) {
    if (still_at_work(*ranks_[static_cast<size_t>(r)]) && silence(r) >= device_wait_s_) return r;
  }
  return -1;
}

// Text about other ranks that were silent about as long. Ranks may wait on their devices for a hung
// rank as long as its patience lasts, and longer.
std::string RankGroup::silent_too(int rank) const {
  constexpr double kNearly = 0.8;
  std::string text;
  for (int r = 0; r < size(); ++r) {
    if (r != rank && still_at_work(*ranks_[static_cast<size_t>(r)]) &&
        silence(r) >= kNearly * silence(rank))
      text += (text.empty() ? "; nor did " : " and ") + rank_name(r);
  }
  return text;
}

bool RankGroup::look_for_failures() {
  if (failed()) return false;
  int rank = at_fault();
  if (rank < 0) return true;
  failure_ = ranks_[static_cast<size_t>(rank)]->failure();
  if (size() == 1) return false;
  if (failure_->kind == "hang") failure_->text += silent_too(rank);
  if (const int missed = missed_by(rank); missed >= 0) {
    const std::string text = "its device did not come to where that of " + rank_name(rank) +
                             " waited for it, " + human_duration(failure_->waited_s) +
                             " long: " + failure_->text;
    RankRunner& runner = *ranks_[static_cast<size_t>(missed)];
    runner.condemn("hang", text);
    failure_ = runner.failure();
    failure_->kind = "hang";
    failure_->text = text;
    rank = missed;
  }
  failure_->text = rank_name(rank) + ": " + failure_->text;
  for (auto& runner : ranks_) runner->condemn("protocol", "another rank has failed");
  // A lost machine does not report its ranks' work; rank 0 waited for them.
  const RunnerFailure& first = ranks_[0]->failure();
  if (failure_->kind == "environment" && rank > 0 && !first.where.empty())
    failure_->text += ", while rank 0 was in " + first.where;
  return false;
}

// In a drive: if a rank waited in vain for another on its device, all ranks did so except the
// missing one. Gives the other ranks time to report it.
void RankGroup::hear_who_waits() {
  const int rank = failed() ? -1 : at_fault();
  if (rank < 0 || missed_by(rank) < 0) return;
  for (const double end = now_seconds() + kOthersSpeakS; now_seconds() < end;) {
    size_t quiet = 0;
    for (auto& runner : ranks_) {
      if (!runner->failed()) runner->wait(kSlice);
      quiet += !runner->failed();
    }
    if (quiet < 2) return;
  }
}

std::optional<Loaded> RankGroup::load(const std::vector<PluginFile>& plugins) {
  std::vector<std::optional<Loaded>> loaded(ranks_.size());
  const auto load_one = [&](RankRunner& runner, int rank) {
    loaded[static_cast<size_t>(rank)] = runner.load(plugins);
  };
  if (!on_all(load_one)) return std::nullopt;
  return loaded[0];
}

std::optional<SessionInfo> RankGroup::open(const SessionSpec& spec,
                                           const std::vector<WeightsHandle>& weights,
                                           const std::vector<StatesHandle>& states) {
  FK_CHECK(weights.size() == ranks_.size(), "every rank has weights");
  FK_CHECK(states.empty() || states.size() == ranks_.size(), "every rank has states, or none");
  std::vector<std::optional<SessionInfo>> infos(ranks_.size());
  const auto open_one = [&](RankRunner& runner, int rank) {
    const auto at = static_cast<size_t>(rank);
    SessionSpec own = spec;
    own.limits.parallel.rank = rank;
    infos[at] =
        runner.open(own, weights[at], states.empty() || !states[at].bytes ? nullptr : &states[at]);
  };
  if (!on_all(open_one)) return std::nullopt;
  return infos[0];
}

std::vector<StatesHandle> RankGroup::states() const {
  std::vector<StatesHandle> all;
  for (const auto& runner : ranks_) all.push_back(runner->states());
  return all;
}

bool RankGroup::clear() {
  return on_all([](RankRunner& runner, int) { runner.clear(); });
}

bool RankGroup::close_session() {
  return on_all([](RankRunner& runner, int) { runner.close_session(); });
}

bool RankGroup::record(const RecordOptions& options, const std::vector<int>& files,
                       const std::string& workload) {
  FK_CHECK(files.size() == ranks_.size(), "every rank has a file");
  return on_all([&](RankRunner&, int rank) {
    here(rank).record(options, files[static_cast<size_t>(rank)], workload);
  });
}

std::optional<std::vector<Recording>> RankGroup::recorded() {
  std::vector<Recording> all(ranks_.size());
  const auto take = [&](RankRunner&, int rank) {
    if (auto recorded = here(rank).recorded())
      all[static_cast<size_t>(rank)] = std::move(*recorded);
  };
  if (!on_all(take)) return std::nullopt;
  return all;
}

std::optional<std::vector<Json>> RankGroup::task_on_all(const std::string& name,
                                                        const Json& arguments,
                                                        const OnProgress& progress) {
  std::vector<Json> answers(ranks_.size());
  std::mutex mutex;
  const auto run_one = [&](RankRunner& runner, int rank) {
    const auto on_progress = [&](const Json& json) {
      const std::lock_guard lock(mutex);
      progress(rank, json);
    };
    // A rank without `progress` must send no progress; task() checks this.
    const auto answer =
        runner.task(name, arguments, progress ? RankRunner::OnProgress(on_progress) : nullptr, {});
    if (answer) answers[static_cast<size_t>(rank)] = *answer;
  };
  if (!on_all(run_one)) return std::nullopt;
  return answers;
}

void RankGroup::wait_for_any(const std::vector<int>& ranks,
                             const std::function<void()>& done) const {
  std::vector<pollfd> entries;
  for (const int r : ranks)
    for (const int fd : here(r).wakers()) entries.push_back({fd, POLLIN, 0});
  spin(entries, here(0).spin_s(), [&] {
    if (done && std::ranges::all_of(ranks, [&](int r) { return here(r).says_done(); })) done();
  });
  ::poll(entries.data(), entries.size(), here(0).tick_ms());  // a process may end without a message
}

std::optional<std::vector<Json>> RankGroup::ask_all(const std::string& name, const Json& arguments,
                                                    const std::vector<int>& fds,
                                                    const std::function<void()>& done) {
  if (failed()) return std::nullopt;
  const size_t share = fds.size() / ranks_.size();
  std::vector<Json> answers(ranks_.size());
  std::vector<int> waiting;
  for (int r = 0; r < size(); ++r) {
    const auto first = fds.begin() + static_cast<std::ptrdiff_t>(share * static_cast<size_t>(r));
    const std::vector<int> own(first, first + static_cast<std::ptrdiff_t>(share));
    waiting.push_back(r);
    if (!here(r).tell(name, arguments, own)) tell_others(r);
  }
  size_t silent = ranks_.size();
  while (!waiting.empty()) {
    std::erase_if(waiting, [&](int r) {
      Runner& runner = here(r);
      if (runner.failed()) return true;
      if (auto answer = runner.heard()) {
        if (--silent == 0 && done) done();
        runner.begin_freeze();
        answers[static_cast<size_t>(r)] = std::move(*answer);
        return true;
      }
      if (runner.failed()) tell_others(r);
      return runner.failed();
    });
    if (!waiting.empty()) wait_for_any(waiting, done);
  }
  if (!look_for_failures()) return std::nullopt;
  return answers;
}

bool RankGroup::freeze() {
  if (size() > 1)
    for (auto& runner : ranks_) runner->begin_freeze();
  for (auto& runner : ranks_) runner->freeze();
  return look_for_failures();
}

void RankGroup::thaw() {
  for (auto& runner : ranks_) runner->thaw();
  look_for_failures();
}

double RankGroup::worked_s() const {
  double all = 0;
  for (int r = 0; r < size(); ++r) all += here(r).worked_s().value_or(0);
  return all;
}

int RankGroup::threads() const {
  int all = 0;
  for (int r = 0; r < size(); ++r) all += here(r).threads();
  return all;
}

// ---- drives ----

bool RankGroup::begin(bool taps) {
  if (failed()) return false;
  for (auto& list : tokens_) list.clear();
  std::fill(compared_.begin(), compared_.end(), 0);
  std::fill(driven_.begin(), driven_.end(), false);
  for (auto& runner : ranks_) runner->begin(taps);
  return look_for_failures();
}

void RankGroup::submit(const Request& request) {
  for (auto& runner : ranks_) runner->submit(request);
}

void RankGroup::close_requests() {
  for (auto& runner : ranks_) runner->close_requests();
}

// Reads all events of the other ranks. False when one has failed or its tokens differ.
bool RankGroup::take_from_others() {
  for (size_t r = 1; r < ranks_.size(); ++r) {
    while (const auto event = ranks_[r]->wait(0)) {
      if (event->kind == RunnerEvent::Kind::token)
        tokens_[r].push_back({event->id, event->index, event->token});
      driven_[r] = driven_[r] || event->kind == RunnerEvent::Kind::driven;
    }
  }
  hear_who_waits();
  if (!look_for_failures()) return false;
  const std::string wrong = tokens_differ();
  if (!wrong.empty()) condemn("protocol", wrong);
  forget_compared();
  return wrong.empty();
}

// Equal logits give all ranks equal tokens in equal order. Returns the first difference.
std::string RankGroup::tokens_differ() {
  for (size_t r = 1; r < ranks_.size(); ++r) {
    for (size_t& at = compared_[r]; at < std::min(tokens_[r].size(), tokens_[0].size()); ++at) {
      const Token &mine = tokens_[r][at], &first = tokens_[0][at];
      if (mine == first) continue;
      return "rank " + std::to_string(r) + " chose token " + std::to_string(mine.token) +
             " where rank 0 chose " + std::to_string(first.token) + " (token " +
             std::to_string(first.index) + " of request " + std::to_string(first.id) + ")";
    }
  }
  return "";
}

// A drive may last for days.
void RankGroup::forget_compared() {
  constexpr size_t kKept = size_t{1} << 16;
  const size_t old = *std::min_element(compared_.begin() + 1, compared_.end());
  if (old < kKept) return;
  for (auto& list : tokens_) list.erase(list.begin(), list.begin() + static_cast<ptrdiff_t>(old));
  for (size_t r = 1; r < compared_.size(); ++r) compared_[r] -= old;
}

std::optional<RunnerEvent> RankGroup::wait(double timeout_s) {
  if (size() == 1) {
    auto event = ranks_[0]->wait(timeout_s);
    look_for_failures();
    return event;
  }
  const double end = now_seconds() + timeout_s;
  while (!failed()) {
    if (!take_from_others()) return std::nullopt;
    if (driven_[0]) {
      if (std::find(driven_.begin(), driven_.end(), false) == driven_.end()) {
        driven_[0] = false;
        for (size_t r = 1; r < ranks_.size(); ++r)
          if (tokens_[r].size() != tokens_[0].size())
            condemn("protocol", "rank " + std::to_string(r) + " chose " +
                                    std::to_string(tokens_[r].size()) + " tokens and rank 0 " +
                                    std::to_string(tokens_[0].size()));
        if (failed()) return std::nullopt;
        RunnerEvent event;
        event.kind = RunnerEvent::Kind::driven;
        event.time_s = now_seconds();
        return event;
      }
      ::usleep(1000);
    } else if (auto event = ranks_[0]->wait(std::clamp(end - now_seconds(), 0.0, kSlice))) {
      if (event->kind == RunnerEvent::Kind::token)
        tokens_[0].push_back({event->id, event->index, event->token});
      if (event->kind != RunnerEvent::Kind::driven) return event;
      driven_[0] = true;
    }
    if (now_seconds() >= end) return std::nullopt;
  }
  return std::nullopt;
}

void RankGroup::condemn(const std::string& kind, const std::string& text) {
  if (failed()) return;
  ranks_[0]->condemn(kind, text);
  failure_ = ranks_[0]->failure();
  for (auto& runner : ranks_) runner->condemn(kind, text);
}

std::string RankGroup::log() {
  if (size() == 1) return ranks_[0]->log();
  std::string all;
  for (int r = 0; r < size(); ++r) {
    const std::string own = ranks_[static_cast<size_t>(r)]->log();
    if (!own.empty()) all += "rank " + std::to_string(r) + ":\n" + own + "\n";
  }
  return all;
}

int64_t RankGroup::held_bytes() const {
  int64_t total = 0;
  for (const auto& runner : ranks_) total += runner->held_bytes();
  return total;
}

void RankGroup::set_patience(double seconds) {
  for (auto& runner : ranks_) runner->set_patience(seconds);
}

void RankGroup::set_open_patience(double seconds) {
  for (auto& runner : ranks_) runner->set_open_patience(seconds);
}

}  // namespace fk
