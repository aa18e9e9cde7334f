// SPDX-License-Identifier: Apache-2.0
// Machines in one process: a block for each, joined by mirrors over sockets, and ranks as threads.
#pragma once
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/comm/block_mirror.hpp"
#include "test/unit/comm/ranks.hpp"

namespace fk::test {

inline std::array<int, 2> stream_pair() {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
    fail("test", "no sockets");
  return pair;
}

class Machines {
 public:
  using Places = std::vector<std::vector<int>>;

  // The ranks of every machine, of the first one first.
  explicit Machines(Places places) : places_(std::move(places)) {
    for (const auto& ranks : places_) size_ += static_cast<int>(ranks.size());
    std::vector<BlockMirror::Peer> first;
    for (size_t m = 0; m < places_.size(); ++m) {
      blocks_.push_back(std::make_shared<SharedMemory>(
          SharedMemory::anonymous(shared_comm_bytes(size_, 0) + 4096 * static_cast<size_t>(m))));
      if (m == 0) continue;
      const auto pair = stream_pair();
      first.push_back({pair[0], places_[m]});
      std::vector<int> others;
      for (size_t o = 0; o < places_.size(); ++o)
        if (o != m) others.insert(others.end(), places_[o].begin(), places_[o].end());
      mirrors_.resize(m + 1);
      mirrors_[m] = std::make_unique<BlockMirror>(
          *blocks_[m], size_, std::vector<BlockMirror::Peer>{{pair[1], others}});
    }
    mirrors_[0] = std::make_unique<BlockMirror>(*blocks_[0], size_, std::move(first));
  }

  MeetingBoard& board(size_t machine) const { return meeting_board(*blocks_.at(machine)); }
  // As when its leader dies.
  void end(size_t machine) { mirrors_.at(machine).reset(); }

  // The ranks' return values, by rank. `meanwhile` runs beside them.
  std::vector<RankResult> run(double patience_s, const RankBody& body,
                              const std::function<void()>& meanwhile = {}) const {
    std::vector<RankResult> results(static_cast<size_t>(size_));
    std::vector<std::thread> threads;
    for (size_t m = 0; m < places_.size(); ++m)
      for (const int rank : places_[m])
        threads.emplace_back([&, m, rank] {
          RankResult& mine = results[static_cast<size_t>(rank)];
          const double start = seconds_now();
          try {
            SharedCommunicator comm(blocks_[m], rank, size_, patience_s);
            mine.text = body(comm);
          } catch (const std::exception& e) {
            mine.text = e.what();
          }
          mine.seconds = seconds_now() - start;
        });
    if (meanwhile) meanwhile();
    for (auto& thread : threads) thread.join();
    return results;
  }

 private:
  const Places places_;
  int size_ = 0;
  std::vector<std::shared_ptr<SharedMemory>> blocks_;
  std::vector<std::unique_ptr<BlockMirror>> mirrors_;
};

}  // namespace fk::test
