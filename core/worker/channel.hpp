// SPDX-License-Identifier: Apache-2.0
// Control messages between controller and worker: length and JSON over a socket pair, with
// descriptors attached to the first byte. Neither side trusts the other's lengths. No call blocks
// longer than its time limit.
#pragma once
#include <poll.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/json.hpp"

namespace fk {

class Channel {
 public:
  // Owns `fd`. Received descriptors are kept only with `accept_fds`; otherwise the kernel drops
  // them. A message longer than `bytes_most` is malformed.
  Channel(int fd, bool accept_fds, uint32_t bytes_most = kBytesMost);
  static constexpr uint32_t kBytesMost = 64U << 20;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  int fd() const { return fd_; }
  // False when the peer has ended or does not read within the time.
  bool send(const Json& message, const std::vector<int>& fds, double timeout_s);
  // The next complete message, if it has arrived; never blocks. Error for a malformed message.
  std::optional<Json> receive();
  // True if the peer has closed its end; earlier messages can still be received.
  bool closed() const { return closed_; }
  // Descriptors received so far; the caller owns them.
  std::vector<int> take_fds();

 private:
  void read_more();
  int fd_;
  bool accept_fds_, closed_ = false;
  uint32_t bytes_most_;
  std::string buffer_;
  std::vector<int> fds_;
};

// Polls for `seconds` without sleeping: a wake-up takes longer than many answers. Calls `meanwhile`
// between polls.
void spin(std::span<pollfd> entries, double seconds, const std::function<void()>& meanwhile = {});
// Waits for the sign of this task's number or a later one (Board::sign). Returns true if the task
// is to go on. `spins`: cores are idle, so it polls and sees the sign within a microsecond.
bool await_sign(const std::atomic<uint64_t>& sign, uint64_t number, bool spins);
// Polls one descriptor for these events; false at the end of the time.
bool wait_for(int fd, short events, double timeout_s);
// Polls one descriptor for reading; false at the end of the time. It spends the first `spin_s`
// seconds without sleep.
bool wait_readable(int fd, double timeout_s, double spin_s = 0);

// The process at the other end of a local socket; nothing if it belongs to another user.
std::optional<pid_t> peer_of(int fd);

}  // namespace fk
