// SPDX-License-Identifier: Apache-2.0
// Sends and receives control messages (channel.hpp). Every system call is non-blocking; poll()
// waits.
#include "core/worker/channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"

namespace fk {

namespace {

// most descriptors in one message: enough for the buffers of all ranks
constexpr size_t kFdsMax = 128;

// Seconds in the unit of poll(): whole milliseconds, rounded up.
int poll_ms(double seconds) {
  return static_cast<int>(std::clamp(std::ceil(seconds * 1e3), 0.0, 1e9));
}

}  // namespace

void spin(std::span<pollfd> entries, double seconds, const std::function<void()>& meanwhile) {
  if (seconds <= 0) return;
  const double end = now_seconds() + seconds;
  while (::poll(entries.data(), entries.size(), 0) == 0 && now_seconds() < end)
    if (meanwhile) meanwhile();
}

bool await_sign(const std::atomic<uint64_t>& sign, uint64_t number, bool spins) {
  constexpr double kSpinSeconds = 5e-3;
  constexpr useconds_t kNapUs = 20;
  const double nap_from = now_seconds() + (spins ? kSpinSeconds : 0);
  for (;;) {
    // Board::sign is twice the number of a task, plus 1 if the task is to go on.
    const uint64_t last = sign.load(std::memory_order_acquire);
    if (last / 2 >= number) return last % 2 == 1;
    if (now_seconds() > nap_from) ::usleep(kNapUs);
  }
}

bool wait_for(int fd, short events, double timeout_s) {
  const double end = now_seconds() + timeout_s;
  for (;;) {
    pollfd entry{fd, events, 0};
    const int got = ::poll(&entry, 1, poll_ms(end - now_seconds()));
    if (got > 0) return true;
    if (got == 0 || errno != EINTR) return false;
  }
}

bool wait_readable(int fd, double timeout_s, double spin_s) {
  pollfd entry{fd, POLLIN, 0};
  spin({&entry, 1}, spin_s);
  return wait_for(fd, POLLIN, timeout_s);
}

std::optional<pid_t> peer_of(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid())
    return std::nullopt;
  return peer.pid;
}

Channel::Channel(int fd, bool accept_fds, uint32_t bytes_most)
    : fd_(fd), accept_fds_(accept_fds), bytes_most_(bytes_most) {}

Channel::~Channel() {
  for (const int fd : fds_) ::close(fd);
  ::close(fd_);
}

bool Channel::send(const Json& message, const std::vector<int>& fds, double timeout_s) {
  FK_CHECK(fds.size() <= kFdsMax, "too many descriptors in one message");
  std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kBytesMost) fail("worker", "a message is too long");
  const auto length = static_cast<uint32_t>(text.size());
  text.insert(0, reinterpret_cast<const char*>(&length), sizeof length);
  const double end = now_seconds() + timeout_s;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kFdsMax * sizeof(int))> control{};
  for (size_t at = 0; at < text.size();) {
    iovec part{text.data() + at, text.size() - at};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (at == 0 && !fds.empty()) {
      header.msg_control = control.data();
      header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* entry = CMSG_FIRSTHDR(&header);
      entry->cmsg_level = SOL_SOCKET;
      entry->cmsg_type = SCM_RIGHTS;
      entry->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(entry), fds.data(), fds.size() * sizeof(int));
    }
    const ssize_t sent = ::sendmsg(fd_, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      at += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      const double left = end - now_seconds();
      if (left <= 0 || !wait_for(fd_, POLLOUT, left)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

// Appends everything that has arrived to buffer_ and fds_, up to one message of the largest size.
void Channel::read_more() {
  std::array<char, 65536> data;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kFdsMax * sizeof(int))> control{};
  while (!closed_ && buffer_.size() < size_t{bytes_most_} + sizeof(uint32_t)) {
    iovec part{data.data(), data.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (accept_fds_) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
    }
    const ssize_t got = ::recvmsg(fd_, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      closed_ = true;
      return;
    }
    buffer_.append(data.data(), static_cast<size_t>(got));
    for (cmsghdr* entry = accept_fds_ ? CMSG_FIRSTHDR(&header) : nullptr; entry;
         entry = CMSG_NXTHDR(&header, entry)) {
      if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(entry) + i * sizeof(int), sizeof fd);
        fds_.push_back(fd);
      }
    }
  }
}

std::optional<Json> Channel::receive() {
  read_more();
  uint32_t length = 0;
  if (buffer_.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, buffer_.data(), sizeof length);
  if (length > bytes_most_) fail("worker", "a message claims an impossible length");
  if (buffer_.size() - sizeof length < length) return std::nullopt;
  const std::string text = buffer_.substr(sizeof length, length);
  buffer_.erase(0, sizeof length + length);
  Json message = parse_json(text, "a message");
  if (!message.is_object()) fail("worker", "a message is no JSON object");
  return message;
}

std::vector<int> Channel::take_fds() { return std::exchange(fds_, {}); }

}  // namespace fk
