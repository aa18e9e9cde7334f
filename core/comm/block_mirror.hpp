// SPDX-License-Identifier: Apache-2.0
// Ranks on several machines. Each machine has a whole block (shared_comm.hpp) with seats for all
// ranks, and a trusted process keeps the blocks equal over sockets. For ranks the only difference
// is the lack of symmetric buffers. Machines form a star: the mirror of one machine has a peer for
// every other machine and passes messages on. The others have one peer.
#pragma once
#include <memory>
#include <vector>

#include "core/base/io.hpp"

namespace fk {

class BlockMirror {
 public:
  struct Peer {
    int fd = -1;             // a connected stream socket that blocks
    std::vector<int> ranks;  // ranks reached over this socket
  };
  // Create it before any rank has the block, which must outlive it. Owns the sockets, even if the
  // constructor fails. Rank 0 is on the machine with several peers. Received messages are
  // untrusted: each writes only the state of its peer's ranks. An invalid message ends the meeting,
  // and so does a closed connection.
  BlockMirror(const SharedMemory& block, int size, std::vector<Peer> peers);
  BlockMirror(const BlockMirror&) = delete;
  // Closes the sockets, which ends the meeting on the other machines.
  ~BlockMirror();

 private:
  class Link;
  std::vector<std::unique_ptr<Link>> links_;
};

}  // namespace fk
