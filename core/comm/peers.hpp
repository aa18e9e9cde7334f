// SPDX-License-Identifier: Apache-2.0
// Sockets between the ranks, a pair of them for each two: what cannot be laid into shared memory,
// the descriptors of a device's memory, goes from rank to rank over them. The broker makes them and
// passes them on when ranks join, because a sealed runner makes no socket.
#pragma once
#include <vector>

#include "core/comm/meeting.hpp"

namespace fk {

// The ends of all ranks, by rank and then by the rank at the other end, -1 for its own; the
// caller's. Error when they cannot be had.
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

  // Gives `fd`, which stays the caller's, to every other rank and takes theirs: by rank, -1 for its
  // own, the caller's. All ranks call it in the same order. Error when one does not within
  // `meeting`'s patience, or the meeting has failed.
  std::vector<int> exchange(int fd, const Meeting& meeting) const;

 private:
  std::vector<int> sockets_;
};

}  // namespace fk
