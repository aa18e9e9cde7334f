// SPDX-License-Identifier: Apache-2.0
// What the broker asks of one thing on another machine: JSON over a connection of its own, so that
// nobody waits for what somebody else has asked. A question has a number, "asks", and
// what answers it, "answer", has it "to"; other messages come unasked.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/worker/remote/machines.hpp"

namespace fk {

class RemoteCalls {
 public:
  // Makes `what` there. Error when the machine cannot be asked.
  RemoteCalls(Machine& machine, const Json& what);
  RemoteCalls(const RemoteCalls&) = delete;
  ~RemoteCalls();  // it is gone there, too, or its machine

  uint64_t id() const { return id_; }  // of the thing, on its machine
  const Machine& machine() const { return machine_; }
  // What is not answered. False when it cannot be sent. [any thread]
  bool tell(const Json& message);
  // The answer; what comes before it goes to `unasked`, which may end the waiting by false. Nothing
  // then, when the time is over, or with gone().
  std::optional<Json> ask(Json message, double patience_s,
                          const std::function<bool(const Json&)>& unasked);
  // The next message if it is there; never waits.
  std::optional<Json> next();
  // Until there may be one.
  void sleep(double seconds);
  // Why nothing more is to be expected; empty: it lives.
  const std::string& gone() const { return gone_; }

 private:
  Machine& machine_;
  uint64_t id_ = 0, asked_ = 0;
  std::mutex sending_;
  std::unique_ptr<Channel> channel_;
  double looked_s_ = 0;
  std::string gone_;
};

}  // namespace fk
