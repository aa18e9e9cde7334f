// SPDX-License-Identifier: Apache-2.0
#include "core/worker/remote/remote_runner.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/worker/remote/messages.hpp"

namespace fk {

namespace {

constexpr double kAsLongAsItLives =
    1e9;  // the leader has the patience, and the machine its signs of life
constexpr double kRemoteTick = 0.1;

std::string hex_of(const std::vector<std::byte>& bytes) {
  return hex_text({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace

RemoteRunner::RemoteRunner(const Runner::Options& options, Machine& machine, int rank,
                           uint64_t block) {
  try {
    calls_ = std::make_unique<RemoteCalls>(
        machine, Json{{"runner", to_json(options)}, {"rank", rank}, {"block", block}});
  } catch (const Error& e) {
    failure_ = RunnerFailure{"environment", "", e.what(), ""};
    return;
  }
  ask({{"do", "start"}});
}

void RemoteRunner::bury(const std::string& kind, const std::string& text) {
  if (failed()) return;
  failure_ = RunnerFailure{kind, "", text, ""};
  failure_->time_s = now_seconds();
}

void RemoteRunner::lost() {
  bury("environment", calls_->gone().empty() ? "its machine takes no messages" : calls_->gone());
}

void RemoteRunner::tell(const Json& message) {
  if (calls_ && !calls_->tell(message)) lost();
}

bool RemoteRunner::take(const Json& message, const OnProgress& progress) {
  try {
    if (const auto it = message.find("failure"); it != message.end()) {
      if (failed()) return false;
      failure_ = runner_failure_from(*it);
      failure_->time_s = now_seconds();
      return false;
    }
    if (const auto it = message.find("progress"); it != message.end() && progress) progress(*it);
    if (const auto it = message.find("tokens"); it != message.end()) {
      RunnerEvent event;
      event.kind = RunnerEvent::Kind::token;
      event.time_s = now_seconds();
      for (const Json& token : *it) {
        event.id = token.at(0);
        event.index = token.at(1);
        event.token = token.at(2);
        events_.push_back(event);
      }
    }
    if (message.contains("driven")) {
      RunnerEvent event;
      event.kind = RunnerEvent::Kind::driven;
      event.time_s = now_seconds();
      events_.push_back(event);
    }
  } catch (const std::exception& e) {
    bury("protocol", std::string("a malformed message: ") + e.what());
  }
  return !failed();
}

std::optional<Json> RemoteRunner::ask(const Json& message, const OnProgress& progress) {
  if (failed()) return std::nullopt;
  auto answer = calls_->ask(message, kAsLongAsItLives,
                            [&](const Json& other) { return take(other, progress); });
  if (!answer && !failed()) lost();
  return answer;
}

bool RemoteRunner::join(const RankSeat& seat, int, const std::vector<int>&, double patience_s) {
  return ask({{"do", "join"}, {"seat", to_json(seat)}, {"patience_s", patience_s}}).has_value();
}

std::optional<RankRunner::Loaded> RemoteRunner::load(const std::vector<PluginFile>& plugins) {
  const auto answer = ask({{"do", "load"}, {"plugins", to_json(plugins)}});
  if (!answer) return std::nullopt;
  try {
    Loaded loaded = loaded_from(*answer);
    if (loaded.errors.size() == plugins.size()) return loaded;
  } catch (const Json::exception&) {
  }
  bury("protocol", "a malformed answer to loading");
  return std::nullopt;
}

std::optional<SessionInfo> RemoteRunner::open(const SessionSpec& spec, const WeightsHandle& weights,
                                              const StatesHandle* states) {
  const auto answer = ask({{"do", "open"},
                           {"spec", to_json(spec)},
                           {"weights", weights.remote},
                           {"states", states ? states->remote : 0}});
  if (!answer) return std::nullopt;
  try {
    states_ = {};
    states_.bytes = answer->at("states_bytes").get<int64_t>();
    states_.remote = calls_->id();
    return session_info_from(answer->at("session"));
  } catch (const std::exception& e) {
    bury("protocol", e.what());
  }
  return std::nullopt;
}

bool RemoteRunner::clear() { return ask({{"do", "clear"}}).has_value(); }
bool RemoteRunner::close_session() { return ask({{"do", "close_session"}}).has_value(); }

std::optional<Json> RemoteRunner::task(const std::string& name, const Json& arguments,
                                       const OnProgress& progress, const std::vector<int>& fds) {
  FK_CHECK(fds.empty(), "descriptors stay on their machine");
  return ask({{"do", "task"}, {"name", name}, {"arguments", arguments}}, progress);
}

bool RemoteRunner::freeze() {
  const auto answer = ask({{"do", "freeze"}});
  return answer && answer->is_boolean() && answer->get<bool>();
}
void RemoteRunner::begin_freeze() {
  if (!failed()) tell({{"do", "begin_freeze"}});
}
void RemoteRunner::thaw() {
  if (!failed()) tell({{"do", "thaw"}});
}

// ---- drives: work begins when the last request is there ----

bool RemoteRunner::begin(bool taps) {
  events_.clear();
  if (!failed()) tell({{"do", "begin"}, {"taps", taps}});
  return !failed();
}

void RemoteRunner::submit(const Request& request) {
  if (failed()) return;
  tell({{"do", "submit"}, {"id", request.id}, {"request", hex_of(encode_request(request))}});
}

void RemoteRunner::close_requests() {
  if (!failed()) tell({{"do", "close"}});
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

void RemoteRunner::dismiss() { tell({{"do", "dismiss"}}); }

void RemoteRunner::condemn(const std::string& kind, const std::string& text) {
  if (failed()) return;
  tell({{"do", "condemn"}, {"kind", kind}, {"text", text}});
  bury(kind, text);
}

bool RemoteRunner::wait_for_end(double seconds) {
  if (!calls_) return true;
  const auto answer = calls_->ask({{"do", "wait_for_end"}, {"seconds", seconds}}, seconds + 5,
                                  [](const Json&) { return true; });
  return answer && answer->is_boolean() && answer->get<bool>();
}

std::string RemoteRunner::log() {
  if (failed()) return failure_->log;
  const auto answer = ask({{"do", "log"}});
  return answer && answer->is_string() ? clean_log(*answer) : "";
}

void RemoteRunner::another_failed(double stop_s) {
  if (calls_) calls_->tell({{"do", "another_failed"}, {"stop_s", stop_s}});
}
void RemoteRunner::set_patience(double seconds) {
  tell({{"do", "set_patience"}, {"seconds", seconds}});
}
void RemoteRunner::set_open_patience(double seconds) {
  tell({{"do", "set_open_patience"}, {"seconds", seconds}});
}

int64_t RemoteRunner::held_bytes() {
  const auto answer = ask({{"do", "held_bytes"}});
  return answer && answer->is_number_integer() ? std::max<int64_t>(0, answer->get<int64_t>()) : 0;
}

}  // namespace fk
