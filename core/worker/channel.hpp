// SPDX-License-Identifier: Apache-2.0
// Control messages between broker and runner: JSON with a length before it over a socket pair, and
// descriptors beside the first byte. Neither side trusts the other's lengths, and no call blocks
// longer than it is told to.
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
  // Owns `fd`. Descriptors that arrive are kept only with `accept_fds`; otherwise the kernel drops
  // them. A message that is longer than `bytes_most` is malformed.
  Channel(int fd, bool accept_fds, uint32_t bytes_most = kBytesMost);
  static constexpr uint32_t kBytesMost = 64U << 20;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  int fd() const { return fd_; }
  // False when the peer is gone or does not read within the time.
  bool send(const Json& message, const std::vector<int>& fds, double timeout_s);
  // The next message if a whole one has arrived; never blocks. Error for a malformed message.
  std::optional<Json> receive();
  // Whether the peer has closed its end (all that it sent before can still be received).
  bool closed() const { return closed_; }
  // The descriptors that came so far; the caller owns them.
  std::vector<int> take_fds();

 private:
  void read_more();
  int fd_;
  bool accept_fds_, closed_ = false;
  uint32_t bytes_most_;
  std::string buffer_;
  std::vector<int> fds_;
};

// Looks for so long without sleeping whether anything has happened: to be woken up takes a process
// longer than many an answer. `meanwhile` is called between looks.
void spin(std::span<pollfd> entries, double seconds, const std::function<void()>& meanwhile = {});
// Waits for the sign of this number, or a later one (board.hpp): whether the task is to go on.
// `spins`: there are cores to spare, so that it is seen within a microsecond.
bool await_sign(const std::atomic<uint64_t>& sign, uint64_t number, bool spins);
// Polls one descriptor for these events; false when the time is over.
bool wait_for(int fd, short events, double timeout_s);
// Polls one descriptor for reading; false when the time is over. The first `spin_s` of it without
// sleeping.
bool wait_readable(int fd, double timeout_s, double spin_s = 0);

// The process at the other end of a local socket; nothing where it is another user's.
std::optional<pid_t> peer_of(int fd);

}  // namespace fk
