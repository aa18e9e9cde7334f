// SPDX-License-Identifier: Apache-2.0
// Sockets between the ranks, one pair for each two ranks. They carry descriptors of device memory,
// which cannot go through shared memory. The controller makes them and passes them on when ranks
// join, because a sealed worker may make no socket.
#pragma once
#include <vector>

#include "core/comm/meeting.hpp"

namespace fk {

// The socket ends of all ranks, by rank and then by the rank at the other end; -1 for the rank
// itself. The caller owns them. Error when they cannot be made.
std::vector<std::vector<int>> make_peer_sockets(int size);

// The sockets of one rank.
class Peers {
 public:
  Peers() = default;
  // Owns the descriptors: by rank, -1 for its own.
  explicit Peers(std::vector<int> sockets) : sockets_(std::move(sockets)) {}
  Peers(Peers&& other) noexcept : sockets_(std::move(other.sockets_)) { other.sockets_.clear(); }
  Peers& operator=(Peers&& other) noexcept {
    std::swap(sockets_, other.sockets_);
    return *this;
  }
  ~Peers();
  bool empty() const { return sockets_.empty(); }

  // Sends `fd` to every other rank and receives theirs, by rank; -1 for the rank itself. The caller
  // owns the results and keeps `fd`. All ranks call it in the same order. Error when a rank is
  // later than `meeting`'s patience, or the meeting has failed.
  std::vector<int> exchange(int fd, const Meeting& meeting) const;

 private:
  std::vector<int> sockets_;
};

}  // namespace fk
