// SPDX-License-Identifier: Apache-2.0
// Passes descriptors between ranks, each attached to a message of one byte (SCM_RIGHTS).
#include "core/comm/peers.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"

namespace fk {

namespace {

constexpr int kSliceMs = 50;  // between two looks at the meeting

// A message of one byte with an attached descriptor.
struct Parcel {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  Parcel() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  Parcel(const Parcel&) = delete;
};

bool send_fd(int socket, int fd) {
  Parcel parcel;
  cmsghdr* entry = CMSG_FIRSTHDR(&parcel.header);
  entry->cmsg_level = SOL_SOCKET;
  entry->cmsg_type = SCM_RIGHTS;
  entry->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(entry), &fd, sizeof fd);
  return ::sendmsg(socket, &parcel.header, MSG_NOSIGNAL) == 1;
}

// -1 when the peer has ended or sends no descriptor.
int receive_fd(int socket) {
  Parcel parcel;
  if (::recvmsg(socket, &parcel.header, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* entry = CMSG_FIRSTHDR(&parcel.header);
  if (!entry || entry->cmsg_type != SCM_RIGHTS || entry->cmsg_len != CMSG_LEN(sizeof(int)))
    return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(entry), sizeof fd);
  return fd;
}

}  // namespace

std::vector<std::vector<int>> make_peer_sockets(int size) {
  const auto count = static_cast<size_t>(size);
  std::vector<std::vector<int>> all(count, std::vector<int>(count, -1));
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = a + 1; b < count; ++b) {
      std::array<int, 2> pair{};
      if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
        const int code = errno;
        for (const auto& row : all)
          for (const int fd : row)
            if (fd >= 0) ::close(fd);
        fail("ranks", std::string("no sockets between them: ") + std::strerror(code));
      }
      all[a][b] = pair[0];
      all[b][a] = pair[1];
    }
  }
  return all;
}

Peers::~Peers() {
  for (const int fd : sockets_)
    if (fd >= 0) ::close(fd);
}

std::vector<int> Peers::exchange(int fd, const Meeting& meeting) const {
  std::vector<int> theirs(sockets_.size(), -1);
  const auto give_up = [&](size_t rank, const std::string& what) {
    for (const int got : theirs)
      if (got >= 0) ::close(got);
    const std::string failure = meeting.failure();
    fail("ranks", failure.empty() ? "rank " + std::to_string(rank) + what : failure);
  };
  for (size_t r = 0; r < sockets_.size(); ++r)
    if (sockets_[r] >= 0 && !send_fd(sockets_[r], fd)) give_up(r, " takes no memory of others");
  const double end = now_seconds() + meeting.patience();
  for (size_t r = 0; r < sockets_.size(); ++r) {
    if (sockets_[r] < 0) continue;
    pollfd ready{sockets_[r], POLLIN, 0};
    while (::poll(&ready, 1, kSliceMs) <= 0)
      if (now_seconds() > end || !meeting.failure().empty())
        give_up(r, " did not share its memory");
    theirs[r] = receive_fd(sockets_[r]);
    if (theirs[r] < 0) give_up(r, " shared no memory");
  }
  return theirs;
}

}  // namespace fk
