// SPDX-License-Identifier: Apache-2.0
// Descriptors between ranks. If this fails, ranks on GPUs map the memory of somebody else, or wait
// for ever for one that is gone.
#include "core/comm/peers.hpp"

#include <unistd.h>

#include <memory>
#include <thread>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/device/rank_device.hpp"
#include "test/catch.hpp"

namespace {

struct Team {
  fk::SharedMemory board = fk::SharedMemory::anonymous(sizeof(fk::MeetingBoard));
  std::vector<std::vector<int>> sockets;
  explicit Team(int size) : sockets(fk::make_peer_sockets(size)) {}
  fk::Meeting meeting(int rank, double patience_s) {
    return fk::Meeting(*static_cast<fk::MeetingBoard*>(board.data()), rank,
                       static_cast<int>(sockets.size()), patience_s);
  }
};

}  // namespace

TEST_CASE("every_rank_gets_every_other_rank_s_descriptor") {
  constexpr int kSize = 3;
  Team team(kSize);
  std::vector<std::vector<int>> seen(kSize, std::vector<int>(kSize, -1));
  std::vector<std::thread> threads;
  for (int r = 0; r < kSize; ++r) {
    threads.emplace_back([&, r] {
      const fk::Peers peers(team.sockets[static_cast<size_t>(r)]);
      const fk::Meeting meeting = team.meeting(r, 10);
      for (int round = 0; round < 2; ++round) {
        const auto mine = fk::SharedMemory::create("test", 4096);
        *static_cast<int*>(mine.data()) = 10 * round + r;
        const std::vector<int> theirs = peers.exchange(mine.fd(), meeting);
        for (int o = 0; o < kSize; ++o) {
          int& value = seen[static_cast<size_t>(r)][static_cast<size_t>(o)];
          const int fd = theirs.at(static_cast<size_t>(o));
          if (o == r) {
            value = fd;
            continue;
          }
          value =
              *static_cast<int*>(fk::SharedMemory::from_fd(fd, 4096, false).data()) - 10 * round;
          ::close(fd);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int r = 0; r < kSize; ++r)
    for (int o = 0; o < kSize; ++o)
      CHECK(seen[static_cast<size_t>(r)][static_cast<size_t>(o)] == (o == r ? -1 : o));
}

TEST_CASE("a_rank_that_shares_nothing_is_named") {
  Team team(2);
  const fk::Peers first(team.sockets[0]);
  auto second = std::make_unique<fk::Peers>(team.sockets[1]);
  const auto mine = fk::SharedMemory::create("test", 4096);
  CHECK_THAT(message_of<fk::Error>([&] { (void)first.exchange(mine.fd(), team.meeting(0, 0.2)); }),
             ContainsSubstring("rank 1 did not share"));
  second.reset();
  CHECK_THAT(message_of<fk::Error>([&] { (void)first.exchange(mine.fd(), team.meeting(0, 0.2)); }),
             ContainsSubstring("rank 1 takes no memory"));
}

TEST_CASE("the_cpu_is_every_rank_s_device") {
  CHECK(fk::device_of_rank("cpu", 5) == "cpu");
  CHECK(fk::device_of_rank("nothing:3", 2) == "nothing:3");
}
