// SPDX-License-Identifier: Apache-2.0
// Ranks on several machines: each machine has a whole block (shared_comm.hpp) with seats for all
// ranks, and a trusted process there keeps it in step with the others' over sockets. Ranks notice
// nothing but that there are no symmetric buffers. Machines form a star: one mirror has a peer for
// every other machine and passes on what comes, the others have that one.
#pragma once
#include <memory>
#include <vector>

#include "core/base/io.hpp"

namespace fk {

class BlockMirror {
 public:
  struct Peer {
    int fd = -1;             // a connected stream socket that blocks
    std::vector<int> ranks;  // those that are reached over it
  };
  // Before any rank has the block, which outlives it. Owns the sockets, also when it fails. Rank 0
  // is on the machine that has several peers. What comes over a socket is not trusted: it writes
  // nothing but what belongs to its ranks, and ends the meeting where it makes no sense. So does a
  // connection that ends.
  BlockMirror(const SharedMemory& block, int size, std::vector<Peer> peers);
  BlockMirror(const BlockMirror&) = delete;
  // Closes the sockets: the meeting ends on the other machines.
  ~BlockMirror();

 private:
  class Link;
  std::vector<std::unique_ptr<Link>> links_;
};

}  // namespace fk
