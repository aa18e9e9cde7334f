// SPDX-License-Identifier: Apache-2.0
// Questions to one thing on another machine, with their answers (remote_calls.hpp). While it waits,
// it also looks whether the machine is alive.
#include "core/worker/remote/remote_calls.hpp"

#include <sys/socket.h>

#include <algorithm>

#include "core/base/clock.hpp"

namespace fk {

namespace {

// seconds: for sending a message; between two looks at the machine
constexpr double kSendS = 30, kTick = 0.1;

}  // namespace

RemoteCalls::RemoteCalls(Machine& machine, const Json& what) : machine_(machine) {
  channel_ = std::make_unique<Channel>(machine.open(what, id_), false);
}

RemoteCalls::~RemoteCalls() {
  constexpr double kEnd = 10;  // seconds for the leader to close its side too
  ::shutdown(channel_->fd(), SHUT_WR);
  for (const double end = now_seconds() + kEnd; gone_.empty() && now_seconds() < end;)
    if (!next()) wait_readable(channel_->fd(), kTick);
}

bool RemoteCalls::tell(const Json& message) {
  const std::lock_guard lock(sending_);
  return channel_->send(message, {}, kSendS);
}

std::optional<Json> RemoteCalls::next() {
  if (!gone_.empty()) return std::nullopt;
  try {
    if (auto message = channel_->receive()) return message;
  } catch (const std::exception& e) {
    gone_ = "its machine, " + machine_.name() + ", talks nonsense: " + e.what();
    return std::nullopt;
  }
  if (channel_->closed()) {
    gone_ = "the connection to its machine, " + machine_.name() + ", has ended";
  } else if (const double now = now_seconds(); now - looked_s_ > kTick) {
    looked_s_ = now;
    gone_ = machine_.gone();
  }
  return std::nullopt;
}

void RemoteCalls::sleep(double seconds) { wait_readable(channel_->fd(), seconds); }

std::optional<Json> RemoteCalls::ask(Json message, double patience_s,
                                     const std::function<bool(const Json&)>& unasked) {
  message["asks"] = ++asked_;
  if (!tell(message)) return std::nullopt;
  const double end = now_seconds() + patience_s;
  while (gone_.empty() && now_seconds() < end) {
    if (auto got = next()) {
      const auto answer = got->find("answer");
      if (answer == got->end()) {
        if (!unasked(*got)) return std::nullopt;
      } else if (const auto to = got->find("to"); to != got->end() && *to == asked_) {
        return std::move(*answer);
      }
    } else if (gone_.empty()) {
      sleep(std::min(kTick, end - now_seconds()));
    }
  }
  return std::nullopt;
}

}  // namespace fk
