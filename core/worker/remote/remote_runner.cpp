// SPDX-License-Identifier: Apache-2.0
// Each operation is a question to the leader of the worker's machine (remote_calls.hpp). News of a
// drive become events.
#include "core/worker/remote/remote_runner.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/sha256.hpp"

namespace fk {

namespace {

// No limit in seconds: the leader limits each operation, and Machine::gone() limits its silence.
constexpr double kAsLongAsItLives = 1e9;
constexpr double kRemoteTick = 0.1;  // seconds of one wait for a message

std::string hex_of(const std::vector<std::byte>& bytes) {
  return hex_text({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace

RemoteRunner::RemoteRunner(const Runner::Options& options, Machine& machine, int rank,
                           uint64_t block) {
  try {
    calls_ = std::make_unique<RemoteCalls>(
        machine,
        message_json(messages::OpenRunner{.runner = options, .rank = rank, .block = block}));
  } catch (const Error& e) {
    failure_ = RunnerFailure{"environment", /*where=*/"", e.what(), /*log=*/""};
    return;
  }
  ask(messages::Start{});
}

void RemoteRunner::bury(const std::string& kind, const std::string& text) {
  if (failed()) return;
  failure_ = RunnerFailure{kind, /*where=*/"", text, /*log=*/""};
  failure_->time_s = now_seconds();
}

void RemoteRunner::lost() {
  bury("environment", calls_->gone().empty() ? "its machine takes no messages" : calls_->gone());
}

bool RemoteRunner::take(const Json& message, const OnProgress& progress) {
  try {
    const auto news = from_fields<messages::News>(message, "news", kForeignLog);
    if (news.failure) {
      if (failed()) return false;
      failure_ = runner_failure_from(message.at("failure"));
      failure_->time_s = now_seconds();
      return false;
    }
    if (news.progress && progress) progress(*news.progress);
    RunnerEvent event;
    event.time_s = now_seconds();
    event.kind = RunnerEvent::Kind::token;
    for (const messages::Token& token : news.tokens) {
      event.id = token.id;
      event.index = token.index;
      event.token = token.token;
      events_.push_back(event);
    }
    if (news.driven) {
      event = {};
      event.kind = RunnerEvent::Kind::driven;
      event.time_s = now_seconds();
      events_.push_back(event);
    }
  } catch (const std::exception& e) {
    bury("protocol", std::string("a malformed message: ") + e.what());
  }
  return !failed();
}

std::optional<Json> RemoteRunner::ask_json(const Json& message, const OnProgress& progress) {
  if (failed()) return std::nullopt;
  auto answer = calls_->ask(message, kAsLongAsItLives,
                            [&](const Json& other) { return take(other, progress); });
  if (!answer && !failed()) lost();
  return answer;
}

// The other machine has its own block, and there are no sockets between machines.
bool RemoteRunner::join(const RankSeat& seat, int, const std::vector<int>&, double patience_s) {
  return ask(messages::Join{seat, patience_s}).has_value();
}

std::optional<Loaded> RemoteRunner::load(const std::vector<PluginFile>& plugins) {
  auto loaded = ask(messages::load_files(plugins), {}, kForeignText);
  if (!loaded || loaded->errors.size() == plugins.size()) return loaded;
  bury("protocol", "a malformed answer to loading");
  return std::nullopt;
}

std::optional<SessionInfo> RemoteRunner::open(const SessionSpec& spec, const WeightsHandle& weights,
                                              const StatesHandle* states) {
  auto answer = ask(messages::OpenRemote{spec, weights.remote, states ? states->remote : 0});
  if (!answer) return std::nullopt;
  states_ = {};
  states_.bytes = answer->states_bytes;
  states_.remote = calls_->id();
  return std::move(answer->session);
}

bool RemoteRunner::clear() { return ask(messages::Clear{}).has_value(); }
bool RemoteRunner::close_session() { return ask(messages::CloseSession{}).has_value(); }

std::optional<Json> RemoteRunner::task(const std::string& name, const Json& arguments,
                                       const OnProgress& progress, const std::vector<int>& fds) {
  FK_CHECK(fds.empty(), "descriptors stay on their machine");
  return ask(messages::Perform{name, arguments}, progress);
}

bool RemoteRunner::freeze() { return ask(messages::Freeze{}).value_or(false); }
void RemoteRunner::begin_freeze() {
  if (!failed()) tell(messages::BeginFreeze{});
}
void RemoteRunner::thaw() {
  if (!failed()) tell(messages::Thaw{});
}

// ---- drives: work begins when the last request is there ----

bool RemoteRunner::begin(bool taps) {
  events_.clear();
  if (!failed()) tell(messages::Begin{taps});
  return !failed();
}

void RemoteRunner::submit(const Request& request) {
  if (!failed()) tell(messages::Submit{request.id, hex_of(encode_request(request))});
}

void RemoteRunner::close_requests() {
  if (!failed()) tell(messages::CloseRequests{});
}

std::optional<RunnerEvent> RemoteRunner::wait(double timeout_s) {
  const double end = now_seconds() + timeout_s;
  while (!failed()) {
    if (!events_.empty()) {
      RunnerEvent event = std::move(events_.front());
      events_.pop_front();
      return event;
    }
    if (const auto message = calls_->next()) {
      if (!take(*message, {})) return std::nullopt;
      continue;
    }
    if (!calls_->gone().empty()) lost();
    const double left = end - now_seconds();
    if (left <= 0) return std::nullopt;
    calls_->sleep(std::min(left, kRemoteTick));
  }
  return std::nullopt;
}

// ---- the end ----

void RemoteRunner::dismiss() { tell(messages::Dismiss{}); }

void RemoteRunner::condemn(const std::string& kind, const std::string& text) {
  if (failed()) return;
  tell(messages::Condemn{kind, text});
  bury(kind, text);
}

bool RemoteRunner::wait_for_end(double seconds) {
  if (!calls_) return true;
  // The leader waits `seconds`, and its answer takes a moment more.
  const auto answer = calls_->ask(message_json(messages::WaitForEnd{seconds}), seconds + 5,
                                  [](const Json&) { return true; });
  return answer && *answer == true;
}

std::string RemoteRunner::log() {
  if (failed()) return failure_->log;
  return ask(messages::Log{}, {}, kForeignLog).value_or("");
}

void RemoteRunner::another_failed(double stop_s) {
  if (calls_) calls_->tell(message_json(messages::AnotherFailed{stop_s}));
}
void RemoteRunner::set_patience(double seconds) { tell(messages::SetPatience{seconds}); }
void RemoteRunner::set_open_patience(double seconds) { tell(messages::SetOpenPatience{seconds}); }

int64_t RemoteRunner::held_bytes() {
  return std::max<int64_t>(0, ask(messages::HeldBytes{}).value_or(0));
}

}  // namespace fk
