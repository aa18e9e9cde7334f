// SPDX-License-Identifier: Apache-2.0
// The controller's handle of a worker on another machine: a `Runner` of that machine's leader,
// which watches the process and forwards its answers. In a drive only tokens and the end are
// forwarded: the first rank, which is never remote, reports everything else.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/worker/rank_runner.hpp"
#include "core/worker/remote/messages.hpp"
#include "core/worker/remote/remote_calls.hpp"
#include "core/worker/runner.hpp"

namespace fk {

class RemoteRunner final : public RankRunner {
 public:
  // Starts the process; a failure is in failure() too. `block`: the number of the ranks' block on
  // that machine.
  RemoteRunner(const Runner::Options& options, Machine& machine, int rank, uint64_t block);

  std::optional<Loaded> load(const std::vector<PluginFile>& plugins) override;
  std::optional<SessionInfo> open(const SessionSpec& spec, const WeightsHandle& weights,
                                  const StatesHandle* states) override;
  const StatesHandle& states() const override { return states_; }
  // Uses the block of its machine; `block_fd` is not sent.
  bool join(const RankSeat& seat, int block_fd, const std::vector<int>& sockets,
            double patience_s) override;
  bool clear() override;
  bool close_session() override;
  std::optional<Json> task(const std::string& name, const Json& arguments,
                           const OnProgress& progress, const std::vector<int>& fds) override;
  bool freeze() override;
  void thaw() override;
  void begin_freeze() override;
  bool begin(bool taps) override;
  void submit(const Request& request) override;
  void close_requests() override;
  std::optional<RunnerEvent> wait(double timeout_s) override;
  void dismiss() override;
  void condemn(const std::string& kind, const std::string& text) override;
  bool wait_for_end(double seconds) override;
  std::string log() override;
  void another_failed(double stop_s) override;
  void set_patience(double seconds) override;
  void set_open_patience(double seconds) override;
  int64_t held_bytes() override;

 private:
  template <class Message>
  void tell(const Message& message) {
    if (calls_ && !calls_->tell(message_json(message))) lost();
  }
  // Nothing after a failure of the worker.
  template <class Message>
  std::optional<typename Message::Answer> ask(const Message& message,
                                              const OnProgress& progress = {},
                                              const Reading& how = kForeignMessage) {
    return understand<typename Message::Answer>(ask_json(message_json(message), progress),
                                                Message::kName, how);
  }
  std::optional<Json> ask_json(const Json& message, const OnProgress& progress);
  bool take(const Json& message, const OnProgress& progress);  // false after a failure
  void lost();
  void bury(const std::string& kind, const std::string& text);

  std::unique_ptr<RemoteCalls> calls_;
  StatesHandle states_;
  std::deque<RunnerEvent> events_;
};

}  // namespace fk
