// SPDX-License-Identifier: Apache-2.0
// The controller's requests to one thing on another machine: JSON over a connection of its own, so
// that no request waits for another thing's answer. A question has a number, "asks"; the "answer"
// repeats it as "to". Other messages come without a question.
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
  // Makes `what` on the machine. Error when the machine cannot be asked.
  RemoteCalls(Machine& machine, const Json& what);
  RemoteCalls(const RemoteCalls&) = delete;
  ~RemoteCalls();  // destroys it on its machine too

  uint64_t id() const { return id_; }  // number of the thing on its machine
  const Machine& machine() const { return machine_; }
  // Sends a message that needs no answer. False when it cannot be sent. [any thread]
  bool tell(const Json& message);
  // Returns the answer. Earlier messages go to `unasked`, which may stop the wait by returning
  // false. Nothing after such a stop, at the end of the time, or with gone().
  std::optional<Json> ask(Json message, double patience_s,
                          const std::function<bool(const Json&)>& unasked);
  // The next message, if one has arrived; never waits.
  std::optional<Json> next();
  // Sleeps until a message may have arrived, at most `seconds`.
  void sleep(double seconds);
  // The reason why no more messages will come; empty: it is alive.
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
