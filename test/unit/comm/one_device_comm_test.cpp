// SPDX-License-Identifier: Apache-2.0
// Ranks which are threads and share a device. All ranks see a write behind a barrier. One rank at a
// time has its turn. No rank waits for a failed rank.
#include "core/comm/one_device_comm.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "test/catch.hpp"

using namespace fk;

namespace {

constexpr int kRanks = 3;

// body(the rank's communicator, of which it has its turn) by a thread for each rank.
void on_one_device(const std::function<void(const fk_comm&)>& body) {
  const auto device = open_device("cpu");
  const auto block = std::make_shared<SharedMemory>(
      SharedMemory::anonymous(shared_comm_bytes(kRanks, size_t{1} << 20)));
  OneDevice common(*device);
  std::vector<std::jthread> threads;
  for (int r = 0; r < kRanks; ++r)
    threads.emplace_back([&, r] {
      SharedCommunicator host(block, r, kRanks, 20);
      OneDeviceCommunicator comm(common, host);
      comm.enter();
      body(*comm.table());
      comm.leave();
    });
}

TEST_CASE(
    "what a rank has written is seen by all behind a barrier, and one has its turn at a time") {
  std::atomic<int> here{0}, together{0}, wrong{0};
  on_one_device([&](const fk_comm& comm) {
    const fk_symmetric *first = nullptr, *second = nullptr;
    wrong +=
        comm.symmetric(&comm, 40, &first) != FK_OK || comm.symmetric(&comm, 8, &second) != FK_OK;
    if (wrong) return;
    for (int round = 1; round <= 100; ++round) {
      together = std::max<int>(together, ++here);
      auto* mine = static_cast<int64_t*>(first->buffers[comm.rank]);
      wrong += round == 1 && (*mine != 0 || *first->signals[comm.rank] != 0);
      *mine = round * (comm.rank + 1);
      --here;
      wrong += comm.barrier(&comm, nullptr) != FK_OK;
      together = std::max<int>(together, ++here);
      for (int r = 0; r < kRanks; ++r)
        wrong += *static_cast<int64_t*>(first->buffers[r]) != round * (r + 1);
      --here;
      wrong += comm.barrier(&comm, nullptr) != FK_OK;
    }
    wrong += first->buffers[0] == second->buffers[0] || first->size != kRanks || first->bytes != 40;
  });
  CHECK(wrong == 0);
  CHECK(together == 1);
}

TEST_CASE("a call that this communicator has not fails on all ranks, with its name") {
  std::atomic<int> failed{0};
  std::vector<std::string> words(kRanks);
  on_one_device([&](const fk_comm& comm) {
    const fk_in x{};
    const fk_out out{};
    // The others wait for a rank that does something else.
    const int32_t status =
        comm.rank == 1 ? comm.all_gather(&comm, &x, &out, nullptr) : comm.barrier(&comm, nullptr);
    failed += status != FK_OK;
    words[static_cast<size_t>(comm.rank)] = comm.error(&comm);
  });
  CHECK(failed == kRanks);
  CHECK_THAT(
      words[1],
      ContainsSubstring("all_gather: this communicator has symmetric buffers and barriers alone"));
  CHECK_THAT(words[0], ContainsSubstring("all_gather"));
}

}  // namespace
