// SPDX-License-Identifier: Apache-2.0
// The CPU's communicator between processes, beyond the suite of all communicators (test/backend). A
// sum is in double. The other ranks learn when one dies, hangs or fails.
#include <array>
#include <memory>
#include <thread>

#include "test/catch.hpp"
#include "test/unit/comm/collectives.hpp"
#include "test/unit/comm/ranks.hpp"

namespace {

using namespace fk;
using namespace fk::test;

void all_well(const std::vector<RankResult>& results) {
  for (size_t r = 0; r < results.size(); ++r) {
    INFO("rank " << r);
    CHECK(results[r].text == "");
  }
}

}  // namespace

TEST_CASE("a sum has the same bits on all ranks, rounded once") {
  all_well(run_ranks(3, 30, [](SharedCommunicator& comm) {
    const fk_comm& c = *comm.table();
    // In float32, 1e8 + 1 - 1e8 is 0 from left to right.
    const std::vector<double> values = {1e8, 1, -1e8};
    Tensor x(DType::f32, {1});
    from_double(values[static_cast<size_t>(comm.rank())], x.data(), DType::f32);
    const View v(x);
    if (c.all_reduce(&c, v.in(), &v.out, FK_SUM, nullptr) != FK_OK) return std::string(c.error(&c));
    return differs(x, [](int64_t) { return 1.0; });
  }));
}

TEST_CASE("a rank that dies, hangs or goes home is missed within the patience") {
  for (const bool dies : {false, true}) {
    const auto results = run_ranks(3, 0.5, [&](SharedCommunicator& comm) {
      const fk_comm& c = *comm.table();
      Tensor x = numbers(DType::f32, comm.rank(), 4);
      const View v(x);
      if (c.all_reduce(&c, v.in(), &v.out, FK_SUM, nullptr) != FK_OK)
        return std::string("before: ") + c.error(&c);
      if (comm.rank() == 2 && dies) ::raise(SIGKILL);
      if (comm.rank() == 2) return std::string("home");
      c.all_reduce(&c, v.in(), &v.out, FK_SUM, nullptr);
      return std::string(c.error(&c));
    });
    for (size_t r = 0; r < 2; ++r) {
      INFO("rank " << r << ", dies " << dies);
      CHECK(results[r].text == "rank 2 did not come to all_reduce of 4 f32 within 500 ms");
      CHECK(results[r].seconds < 20);
    }
  }
}

TEST_CASE("who watches the ranks can end their waiting at once") {
  const auto results = run_ranks(
      2, 3600,
      [](SharedCommunicator& comm) {
        if (comm.rank() == 1) ::pause();
        comm.table()->barrier(comm.table(), nullptr);
        return std::string(comm.table()->error(comm.table()));
      },
      [](const std::vector<pid_t>& ranks, MeetingBoard& board) {
        ::kill(ranks[1], SIGKILL);
        fail_meeting(board, "rank 1 crashed\x1b[2J");
        fail_meeting(board, "a second reason");
      });
  CHECK(results[0].text == "rank 1 crashed?[2J");
  CHECK(results[0].seconds < 20);
}

TEST_CASE("nobody waits to settle with a rank that is gone") {
  const auto results = run_ranks(
      2, 3600,
      [](SharedCommunicator& comm) {
        if (comm.rank() == 1) ::pause();
        comm.settle();
        return std::string("it settled");
      },
      [](const std::vector<pid_t>& ranks, MeetingBoard& board) {
        ::kill(ranks[1], SIGKILL);
        end_meeting(board, "rank 1 is gone");
      });
  CHECK(results[0].text == "ranks: rank 1 is gone");
  CHECK(results[0].seconds < 20);
}

TEST_CASE("after settle() ranks work together again, whatever failed before") {
  all_well(run_ranks(3, 30, [](SharedCommunicator& comm) {
    for (int round = 0; round < 3; ++round) {
      const fk_comm& c = *comm.table();
      Tensor x = numbers(DType::f32, comm.rank(), 5);
      const View v(x);
      // Rank `round` is the odd one, and the others get stuck at different points.
      if (comm.rank() != round && c.barrier(&c, nullptr) == FK_OK)
        return std::string("a barrier without all ranks");
      if (comm.rank() == round) comm.meeting().give_up("for a test");
      comm.settle();
      if (auto why = collectives(comm, DType::f32, 9); !why.empty()) return why;
    }
    return std::string();
  }));
}

TEST_CASE("the first rank tells the others a word") {
  all_well(run_ranks(3, 30, [](SharedCommunicator& comm) {
    for (uint64_t i = 0; i < 100; ++i) {
      const uint64_t said =
          comm.meeting().first_says("count", comm.rank() == 0 ? i * i : 12345, Meeting::kNoLimit);
      if (said != i * i) return "it said " + std::to_string(said);
    }
    return std::string();
  }));
}

TEST_CASE("all ranks say yes, or one of them says no") {
  all_well(run_ranks(3, 30, [](SharedCommunicator& comm) {
    for (int round = 0; round < 12; ++round) {
      // Every fourth time all agree; else one of the three does not.
      const bool mine = round % 4 == 3 || comm.rank() != round % 4;
      if (comm.meeting().all_say("agree", mine) != (round % 4 == 3))
        return "round " + std::to_string(round);
    }
    return std::string();
  }));
}

TEST_CASE("ranks may be threads, with a block that has no room for symmetric buffers") {
  const auto block =
      std::make_shared<SharedMemory>(SharedMemory::anonymous(shared_comm_bytes(2, 0)));
  std::array<std::string, 2> said;
  const auto one = [&](int rank) {
    SharedCommunicator comm(block, rank, 2, 30);
    said[static_cast<size_t>(rank)] = collectives(comm, DType::f32, 70000);
    const fk_symmetric* view = nullptr;
    if (comm.table()->symmetric(comm.table(), 1, &view) == FK_OK)
      said[static_cast<size_t>(rank)] = "a symmetric buffer without memory";
  };
  std::thread other(one, 1);
  one(0);
  other.join();
  CHECK(said[0].empty());
  CHECK(said[1].empty());
}

TEST_CASE("the slowest of all ranks is known to all") {
  all_well(run_ranks(3, 30, [](SharedCommunicator& comm) {
    for (int round = 0; round < 10; ++round) {
      const double own = 1e-6 * ((comm.rank() + round) % 3 + 1);
      const double slowest = comm.meeting().slowest("a sample", own);
      if (slowest != 1e-6 * 3) return "it is " + std::to_string(slowest);
    }
    return std::string();
  }));
}
